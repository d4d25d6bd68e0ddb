"""Typed refusals, mapped once to error codes."""

from controlplane.errors import ErrorCode


class Refused(Exception):
    """A command, or one item of it, that is answered with an error code; nothing changes."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class MalformedCommand(Refused):
    """A command whose fields contradict each other: its sender is wrong, not its moment."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
