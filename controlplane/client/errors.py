"""How a call fails."""


class ControlPlaneUnavailable(Exception):
    """No answer: whether the command took effect is not known. Idempotent commands may be tried
    again.
    """


class CommandRefused(Exception):
    """The command was not taken; nothing changed. `code` is an ErrorCode's number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code
        self.message = message
