"""Exceptions with which verbs reject commands, and their error codes."""

from lacuna.controlplane.shared.errors import ErrorCode


class Refused(Exception):
    """A command, or one item of it, is rejected with an error code. Nothing changes."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class MalformedCommand(Refused):
    """A command is rejected with INVALID_REQUEST because it could never be valid: its sender has a bug."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
