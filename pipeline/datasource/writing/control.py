"""The control plane as a write holds it: lost replies are asked for again, within a bound."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from controlplane.client import ControlPlaneUnavailable, GrpcClientSettings
from controlplane.v1.control_pb2 import Command, Reply
from pipeline.control import ControlPlane

#: Seconds for which a call is repeated whose reply was lost, as when the control plane restarts.
RETRY_SECONDS: Final = 60.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class RetryingControlPlane(ControlPlane):
    """Every command that is sent by these two has to be one that may be sent twice."""

    def __init__(self, address: str) -> None:
        super().__init__(address, GrpcClientSettings(give_up_after=RETRY_SECONDS))

    def ask(self, command: Command) -> Reply:
        """One command's reply. Raises ControlPlaneUnavailable when the bound is over, CommandRefused."""
        return self.ask_all([command])[0]

    def ask_all(
        self, commands: Sequence[Command], retry_seconds: float = RETRY_SECONDS
    ) -> list[Reply]:
        """The replies of commands that are taken in their order; they are under way together.

        Where one reply is lost, all are sent again. Raises as `ask`.
        """
        deadline = time.monotonic() + retry_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._run(self._call_all(commands))
            except ControlPlaneUnavailable:
                if time.monotonic() + pause > deadline:
                    raise
                # Nothing tells when the control plane is back but an attempt.
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _call_all(self, commands: Sequence[Command]) -> list[Reply]:
        outcomes = await asyncio.gather(
            *(self._client.call(command) for command in commands), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
