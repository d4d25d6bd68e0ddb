"""What an agent's answers say, in words: an error code becomes one line that says what to do."""

from kio.schema.errors import ErrorCode

from lacuna.cli.errors import fail

_HINTS = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic; `lacuna topics list` shows them",
    ErrorCode.topic_already_exists: "there is such a topic already; choose another name",
    ErrorCode.group_id_not_found: "there is no such group; `lacuna groups list` shows them",
    ErrorCode.non_empty_group: "it still has members; stop its consumers first",
    ErrorCode.transactional_id_not_found: "no producer has used it, or it has expired; "
    "`lacuna transactions list` shows those there are",
    ErrorCode.coordinator_not_available: "the control plane does not answer; is it running?",
    ErrorCode.not_coordinator: "the control plane does not answer; is it running?",
}


def check(error_code: ErrorCode | int, subject: str, message: str | None = None) -> None:
    """Ends the command where an answer carries an error. Raises UserError."""
    code = ErrorCode(error_code)
    if code is not ErrorCode.none:
        fail(f"{subject}: {_HINTS.get(code) or message or code.name.replace('_', ' ')}")
