"""Turns the error codes of agents' answers into one line that says what to do."""

from typing import Final

from lacuna.cli.errors import fail
from lacuna.controlplane.shared.errors import ErrorCode

_DENIED = "ACLs do not allow it; somebody who may can allow it with `lacuna acls add`"
HINTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _DENIED,
    ErrorCode.SECURITY_DISABLED: "ACLs decide nothing here: the agents run without --authorizer",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic; `lacuna topics list` shows the topics that exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name exists already; choose another name",
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "there is no such group; `lacuna groups list` shows the groups that exist"
    ),
    ErrorCode.NON_EMPTY_GROUP: "it still has members; stop its consumers first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no producer has used it, or it has expired; "
    "`lacuna transactions list` shows the ones that exist",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the control plane does not answer; is it running?",
    ErrorCode.NOT_COORDINATOR: "the control plane does not answer; is it running?",
    ErrorCode.LEADER_NOT_AVAILABLE: "the control plane does not answer; is it running?",
}
#: For answers that have no message of their own.
_WITHOUT_MESSAGE: Final = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "this cannot be the name of a topic: use 1 to 249 of ASCII letters, digits, "
    "dots, underscores and hyphens, and not . or .. alone",
    ErrorCode.INVALID_GROUP_ID: "this cannot be the id of a group: it is empty",
    ErrorCode.CORRUPT_MESSAGE: "what the object store has of it is damaged; `lacuna verify` finds where and which "
    "records that affects",
    ErrorCode.KAFKA_STORAGE_ERROR: "the object store could not be read or written; the agent's log says why",
    ErrorCode.REQUEST_TIMED_OUT: "it took too long; it may still happen: look, and try again",
    ErrorCode.UNKNOWN_SERVER_ERROR: "an error of the agent's own; its log has it",
}


def _named(code: ErrorCode) -> str:
    return f"the agent answered {code.name}; its log may say why"


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raises UserError if an answer about `subject` carries an error code; `message` is the agent's, if it sent one."""
    code = ErrorCode(error_code)
    if code is not ErrorCode.NONE:
        fail(
            f"{subject}: {HINTS.get(code) or message or _WITHOUT_MESSAGE.get(code) or _named(code)}"
        )
