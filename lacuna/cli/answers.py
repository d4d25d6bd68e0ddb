"""Translates agents' error codes into one-line errors with a remedy."""

from typing import Final

from lacuna.cli.errors import fail
from lacuna.controlplane.shared.errors import ErrorCode

_DENIED = "ACLs do not allow it; an administrator can allow it with `lacuna acls add`"
HINTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.SECURITY_DISABLED: "ACLs have no effect, since the agents run without --authorizer: start them with it",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist; `lacuna topics list` lists the topics",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name already exists; choose a different name",
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "the group does not exist; `lacuna groups list` lists the groups"
    ),
    ErrorCode.NON_EMPTY_GROUP: "the group still has members; stop its consumers first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group still read the topic; stop its consumers first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no producer has used it, or it has expired; "
    "`lacuna transactions list` lists the existing ones",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the control plane does not answer; check that it is running",
    ErrorCode.NOT_COORDINATOR: "the control plane does not answer; check that it is running",
    ErrorCode.LEADER_NOT_AVAILABLE: "the control plane does not answer; check that it is running",
}
#: For error codes that come without a message.
_WITHOUT_MESSAGE: Final = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "this is not a valid topic name: use 1 to 249 ASCII letters, digits, "
    "dots, underscores and hyphens, but not . or .. alone",
    ErrorCode.INVALID_GROUP_ID: "the group id is empty: specify a group",
    ErrorCode.CORRUPT_MESSAGE: "its records in the object store are damaged; `lacuna verify` shows where, and which "
    "records are affected",
    ErrorCode.KAFKA_STORAGE_ERROR: "the agent could not read or write the object store; see its log for the reason",
    ErrorCode.REQUEST_TIMED_OUT: "the agent did not answer in time, but may still carry out the request: "
    "check whether it has before you try again",
    ErrorCode.UNKNOWN_SERVER_ERROR: "the agent failed unexpectedly; see its log for the reason",
}


def _named(code: ErrorCode) -> str:
    return f"the agent answered {code.name}; its log may have the reason"


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raises UserError if `error_code` is an error. `subject` is what the response is about."""
    code = ErrorCode(error_code)
    if code is not ErrorCode.NONE:
        fail(
            f"{subject}: {HINTS.get(code) or message or _WITHOUT_MESSAGE.get(code) or _named(code)}"
        )
