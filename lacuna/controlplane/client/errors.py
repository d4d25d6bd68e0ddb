"""The errors that a call to the control plane can raise."""


class ControlPlaneUnavailable(Exception):
    """There was no reply: the command may or may not have taken effect. Idempotent commands can be retried."""


class CommandRefused(Exception):
    """The control plane rejected the command and changed nothing. `code` is the number of an ErrorCode.

    With UNKNOWN_SERVER_ERROR, the leader fell silent while it decided the command, which may have changed something.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code
        self.message = message
