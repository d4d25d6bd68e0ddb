"""The calls of one session that wait for a reply."""

import asyncio
from collections.abc import Collection, Sequence

from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.v1.control_pb2 import Command, Reply


class Calls:
    """Futures by command id. At most `max_calls` wait; one more fails at once."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}

    def add(self, command: Command) -> "asyncio.Future[Reply]":
        """Gives the command its id, and a future for the reply. Raises ControlPlaneUnavailable."""
        if len(self._waiting) >= self._max_calls:
            raise ControlPlaneUnavailable(
                f"{len(self._waiting)} commands wait for the control plane: wait for some replies"
            )
        self._last_id += 1
        command.command_id = self._last_id
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = future
        return future

    def forget(self, command_id: int) -> None:
        """Nobody waits for this reply any more."""
        self._waiting.pop(command_id, None)

    def resolve(self, replies: Sequence[Reply]) -> None:
        """Hands replies out; one that nobody waits for is dropped."""
        for reply in replies:
            future = self._waiting.pop(reply.command_id, None)
            if future is None or future.done():
                continue
            if reply.HasField("failure"):
                failure = reply.failure
                future.set_exception(CommandRefused(failure.error_code, failure.message))
            else:
                future.set_result(reply)

    def refuse(self, command_id: int, refused: CommandRefused | ControlPlaneUnavailable) -> None:
        """A command that is not sent."""
        future = self._waiting.pop(command_id, None)
        if future is not None and not future.done():
            future.set_exception(refused)

    def is_waiting(self, command_id: int) -> bool:
        """Somebody waits for this reply."""
        return command_id in self._waiting

    def fail(self, error: ControlPlaneUnavailable, kept: Collection[int] = ()) -> None:
        """No reply comes any more, to any but those that are `kept`."""
        waiting, self._waiting = self._waiting, {}
        for command_id, future in waiting.items():
            if command_id in kept:
                self._waiting[command_id] = future
            elif not future.done():
                future.set_exception(ControlPlaneUnavailable(str(error)))
