"""Exceptions with which verbs refuse commands, and their error codes."""

from lacuna.controlplane.shared.errors import ErrorCode


class Refused(Exception):
    """A command, or one item of it, is refused with an error code; nothing changes."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class MalformedCommand(Refused):
    """A command is refused with INVALID_REQUEST because it could never be valid: its sender has a bug."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
