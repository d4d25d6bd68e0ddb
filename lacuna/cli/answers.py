"""Turns the error codes of agents' answers into one line that says what to do."""

from lacuna.cli.errors import fail
from lacuna.controlplane.shared.errors import ErrorCode

_DENIED = "ACLs do not allow it; somebody who may can allow it with `lacuna acls add`"
_HINTS = {
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
}


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raises UserError if an answer about `subject` carries an error code; `message` is the agent's, if it sent one."""
    code = ErrorCode(error_code)
    if code is not ErrorCode.NONE:
        fail(f"{subject}: {_HINTS.get(code) or message or code.name.lower().replace('_', ' ')}")
