"""Shares quotas with the other agents by reporting this agent's use once a second and receiving its shares."""

import asyncio
import logging
from typing import Final

from lacuna.agent.lease import AgentLease
from lacuna.agent.quotas.quotas import FIRST_SHARE, Bucket, Quotas
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import Entity
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import QuotaEntity, QuotaUse, ShareQuotas

log = logging.getLogger("lacuna.agent")

_SECONDS: Final = 1.0


class QuotaSharing:
    """Requests this agent's shares for as long as quotas are used."""

    def __init__(self, control: ControlClient, lease: AgentLease, quotas: Quotas) -> None:
        self._control = control
        self._lease = lease
        self._quotas = quotas
        self._reported_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._reported_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._share(), name="quotas")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _share(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            now = asyncio.get_running_loop().time()
            buckets = self._quotas.buckets
            for counted in [each for each, bucket in buckets.items() if bucket.is_idle(now)]:
                del buckets[counted]
            if buckets:
                await self._ask(now)
            self._reported_at = now

    async def _ask(self, now: float) -> None:
        seconds = now - self._reported_at
        asked = list(self._quotas.buckets.items())
        uses = [_use(key, entity, bucket, seconds) for (key, entity), bucket in asked]
        for _, bucket in asked:
            bucket.reported()
        command = Command(share_quotas=ShareQuotas(lease_id=self._lease.lease_id, uses=uses))
        try:
            reply = (await self._control.call(command)).quotas_shared
        except (ControlPlaneUnavailable, CommandRefused) as error:
            # Other agents may take over this agent's shares, so little is granted until there is an answer.
            log.debug("this agent's shares of the quotas could not be updated: %s", error)
            for _, bucket in asked:
                bucket.share = min(bucket.share, FIRST_SHARE)
            return
        if reply.error_code == ErrorCode.NONE:
            for (_, bucket), share in zip(asked, reply.shares, strict=True):
                bucket.share = share


def _use(key: str, entity: Entity, bucket: Bucket, seconds: float) -> QuotaUse:
    parts = [QuotaEntity(type=kind, name=name) for kind, name in entity]
    used = bucket.used / seconds / bucket.rate if seconds > 0 and bucket.rate > 0 else 0.0
    return QuotaUse(key=key, entity=parts, used=used, is_short=bucket.was_short)
