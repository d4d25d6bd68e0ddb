"""gRPC's standard health service (grpc.health.v1)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from lacuna.controlplane.client.grpc import CallError
from lacuna.controlplane.listening import Call, Handler
from lacuna.controlplane.v1.control_pb2 import HealthCheckRequest, HealthCheckResponse

_SERVICE: Final = "/grpc.health.v1.Health/"


class Health:
    """Reports which services are serving, both on request and to watchers."""

    def __init__(self) -> None:
        self._serving: dict[str, bool] = {}
        self._changed = asyncio.Event()

    def set(self, service: str, *, is_serving: bool) -> None:
        self._serving[service] = is_serving
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The methods of the health service, by path."""
        return {_SERVICE + "Check": self._check, _SERVICE + "Watch": self._watch}

    async def _check(self, call: Call) -> None:
        service = (await call.read_only(HealthCheckRequest)).service
        if service not in self._serving:
            raise CallError("NOT_FOUND", f"there is no service {service!r}")
        await call.write(self._answer(service))

    async def _watch(self, call: Call) -> None:
        service = (await call.read_only(HealthCheckRequest)).service
        told: HealthCheckResponse | None = None
        while True:
            changed = self._changed
            if (answer := self._answer(service)) != told:
                told = answer
                await call.write(answer)
            await changed.wait()

    def _answer(self, service: str) -> HealthCheckResponse:
        status = HealthCheckResponse.SERVICE_UNKNOWN
        if service in self._serving:
            is_serving = self._serving[service]
            status = HealthCheckResponse.SERVING if is_serving else HealthCheckResponse.NOT_SERVING
        return HealthCheckResponse(status=status)
