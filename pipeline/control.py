"""The control plane, asked from ordinary threads: what a driver or a task holds of it.

An event loop in a thread of its own runs the clients of `controlplane.client`, so that their views stay
current while Spark works. There is one in a process, and it is never closed: gRPC still has events for the
loop of a client that has ended.
"""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Coroutine, Iterable, Mapping
from copy import copy
from functools import cache
from typing import Any, Final, Self, TypeVar

from controlplane.client import (
    ControlPlaneUnavailable,
    GrpcClient,
    GrpcClientSettings,
    confirm,
)
from controlplane.errors import ErrorCode
from controlplane.extents import COLUMNS, DeadRanges, ExtentTable
from controlplane.v1.cluster_pb2 import Topic
from controlplane.v1.control_pb2 import Command, Reply
from pipeline.errors import PipelineError, StaleMetadataError
from pipeline.extents import PartitionKey, PartitionLog

Result = TypeVar("Result")

#: Seconds until a control plane that does not answer is an error.
_GIVE_UP_AFTER: Final = 10.0
#: Views that are waited for at a time.
_VIEWS_AT_ONCE: Final = 500


class ControlPlane:
    """A client of the control plane at `address` (HOST:PORT or unix:PATH); close it, or use `with`.

    Raises ControlPlaneUnavailable, here and in every call, where nothing answers.
    """

    def __init__(self, address: str, settings: GrpcClientSettings | None = None) -> None:
        self._settings = settings or GrpcClientSettings(give_up_after=_GIVE_UP_AFTER)
        self._loop = _shared_loop(os.getpid())
        self._is_open = True
        self._client: GrpcClient = self._run(self._open(address))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; a second time does nothing."""
        if self._is_open:
            self._run(self._client.close())
            self._is_open = False

    def call(self, command: Command) -> Reply:
        """One command's reply. Raises ControlPlaneUnavailable, CommandRefused."""
        return self._run(self._client.call(command))

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as object keys begin with it."""
        return self._client.cluster.cluster_id

    def topics(self) -> Mapping[str, Topic]:
        """Topics by name; with every change that was answered before the call."""
        return self._run(self._topics())

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """What is known of each partition now, in the order of `keys`.

        Every entry is a copy of one version; different partitions may be of different moments, each
        not before the call. Raises StaleMetadataError for a topic that is gone.
        """
        return self._run(self._partition_logs(list(keys)))

    async def _open(self, address: str) -> GrpcClient:
        client = GrpcClient(address, random.SystemRandom().random, self._settings)
        client.start()
        try:
            await client.cluster.ready()
        except BaseException:
            await client.close()
            raise
        return client

    async def _topics(self) -> dict[str, Topic]:
        await self._confirm()
        return dict(self._client.cluster.topics_by_name)

    async def _partition_logs(self, keys: list[PartitionKey]) -> list[PartitionLog]:
        await self._confirm()
        logs: list[PartitionLog] = []
        for start in range(0, len(keys), _VIEWS_AT_ONCE):
            some = keys[start : start + _VIEWS_AT_ONCE]
            views = [self._client.partition(*key) for key in some]
            await asyncio.gather(*(view.ready() for view in views))
            logs += [self._log(key) for key in some]
        return logs

    async def _confirm(self) -> None:
        """The views have, or wait for, every change that was answered before this.

        Where the session is lost meanwhile, the next one begins with what there is then.
        """
        with contextlib.suppress(ControlPlaneUnavailable):
            await confirm(self._client)
        await self._client.cluster.ready()

    def _log(self, key: PartitionKey) -> PartitionLog:
        view = self._client.partition(*key)
        topic = self._client.cluster.topics_by_id.get(view.topic_id)
        if topic is None or view.is_deleted:
            raise StaleMetadataError(
                f"the topic with id {view.topic_id.hex()} was deleted meanwhile: start the job again"
            )
        return PartitionLog(
            topic=topic.name,
            topic_id=view.topic_id,
            partition=view.partition,
            version=view.version,
            log_start_offset=view.log_start_offset,
            last_stable_offset=view.last_stable_offset,
            high_watermark=view.high_watermark,
            extents=_copy_extents(view.extents),
            dead=_copy_dead(view.dead),
        )

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if not self._is_open:
            work.close()
            raise ControlPlaneUnavailable("this client of the control plane is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@cache
def _shared_loop(process_id: int) -> asyncio.AbstractEventLoop:
    """Of this process: a forked one has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    name = f"control-plane-{process_id}"
    threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
    return loop


def check(code: int, what: str) -> None:
    """Raises PipelineError for an error code of the control plane; `what` was tried."""
    if code == ErrorCode.NONE:
        return
    if code == ErrorCode.PLAN_STALE:
        raise StaleMetadataError(f"{what}: the log has changed since it was planned; plan again")
    raise PipelineError(f"{what}: the control plane answered {_name_of(code)}")


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _copy_extents(extents: ExtentTable) -> ExtentTable:
    found = ExtentTable()
    for name in COLUMNS:
        setattr(found, name, copy(getattr(extents, name)))
    return found


def _copy_dead(dead: DeadRanges) -> DeadRanges:
    found = DeadRanges()
    found.firsts, found.ends = copy(dead.firsts), copy(dead.ends)
    return found
