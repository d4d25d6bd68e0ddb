"""The errors with which verbs reject commands."""

from lacuna.controlplane.shared.errors import ErrorCode


class Refused(Exception):
    """Rejects a command, or one item of it, with an error code. Nothing changes."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class MalformedCommand(Refused):
    """Rejects a command that could never be valid (INVALID_REQUEST): its sender has a bug."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
