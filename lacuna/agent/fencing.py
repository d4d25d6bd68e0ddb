"""The error code that a fenced producer gets, which depends on the version of its request."""

from lacuna.controlplane.shared.errors import ErrorCode

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def fenced(error_code: int, knows_producer_fenced: bool) -> int:
    """Replace a fencing error with the one that the client knows, PRODUCER_FENCED or INVALID_PRODUCER_EPOCH.

    Other error codes are returned unchanged. `knows_producer_fenced` is true if the request's version defines
    PRODUCER_FENCED (KIP-588).
    """
    if error_code not in _FENCED:
        return error_code
    return int(_FENCED[0] if knows_producer_fenced else _FENCED[1])
