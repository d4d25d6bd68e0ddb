"""A control plane client for writes, which repeats commands for a limited time if their reply is lost."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from lacuna.controlplane.client import ControlPlace, ControlPlaneUnavailable, SessionLimits
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.pipeline.control import JobClient

#: How long, in seconds, a call is repeated if its reply is lost, for example while the control plane restarts.
RETRY_SECONDS: Final = 60.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class RetryingJobClient(JobClient):
    """A JobClient that may send a command more than once, which the command must tolerate."""

    def __init__(self, place: ControlPlace) -> None:
        super().__init__(place, SessionLimits(give_up_after=RETRY_SECONDS))

    def ask(self, command: Command) -> Reply:
        """Sends a command and returns its reply.

        Raises ControlPlaneUnavailable if no reply arrives within RETRY_SECONDS, and CommandRefused.
        """
        return self.ask_all([command])[0]

    def ask_all(
        self, commands: Sequence[Command], retry_seconds: float = RETRY_SECONDS
    ) -> list[Reply]:
        """Sends commands together, to be executed in order, and returns their replies.

        If a reply is lost, all of them are sent again, for up to `retry_seconds`. Raises the same errors as `ask`.
        """
        deadline = time.monotonic() + retry_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._run(self._call_all(commands))
            except ControlPlaneUnavailable:
                if time.monotonic() + pause > deadline:
                    raise
                # Only another attempt shows whether the control plane is back.
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
