"""The pending calls of one client."""

import asyncio
from collections.abc import Collection, Sequence

from lacuna.controlplane.client.protocol import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.v1.control_pb2 import Command, Reply


class Calls:
    """Futures for replies, by command id. At most `max_calls` calls may wait; further calls fail immediately."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}

    def add(self, command: Command) -> "asyncio.Future[Reply]":
        """Set `command.command_id`, and return a future for the reply. Raises ControlPlaneUnavailable if `max_calls`
        calls are already waiting.
        """
        if len(self._waiting) >= self._max_calls:
            raise ControlPlaneUnavailable(
                f"{len(self._waiting)} commands are waiting for the control plane: wait for some replies first"
            )
        self._last_id += 1
        command.command_id = self._last_id
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = future
        return future

    def forget(self, command_id: int) -> None:
        """Stop waiting for the reply to this command. A late reply is dropped."""
        self._waiting.pop(command_id, None)

    def resolve(self, replies: Sequence[Reply]) -> None:
        """Settle the futures of these replies. A Failure becomes CommandRefused; unexpected replies are dropped."""
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
        """Fail the call of a command that will not be sent."""
        future = self._waiting.pop(command_id, None)
        if future is not None and not future.done():
            future.set_exception(refused)

    def is_waiting(self, command_id: int) -> bool:
        return command_id in self._waiting

    def fail(self, error: ControlPlaneUnavailable, kept: Collection[int] = ()) -> None:
        """Fail all calls with `error`, except those whose command ids are in `kept`."""
        waiting, self._waiting = self._waiting, {}
        for command_id, future in waiting.items():
            if command_id in kept:
                self._waiting[command_id] = future
            elif not future.done():
                future.set_exception(ControlPlaneUnavailable(str(error)))
