"""Why a request to a consumer group is not done."""

from controlplane.errors import ErrorCode


class Refused(Exception):
    """The request's error; nothing was changed. The message is for the client."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
