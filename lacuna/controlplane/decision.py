"""The input and output of deciding a command. Pure values: time, ids and randomness arrive as arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lacuna.controlplane.v1.control_pb2 import Reply
    from lacuna.controlplane.v1.journal_pb2 import JournalRecord


class Context(NamedTuple):
    """The circumstances under which one command is decided.

    `now_ms` is the time of the control plane's clock, which is never earlier than the last journal record. Each call of
    `new_id` returns 16 random bytes. `token` identifies the waiting caller, so that the reply to a parked command can
    find it. `session` is the number of the session that sent the command, or 0 if none did. While `is_time_doubtful`,
    the clocks do not agree with `now_ms`, so nothing may be deleted by age.
    """

    now_ms: int
    new_id: Callable[[], bytes]
    token: int = 0
    session: int = 0
    is_time_doubtful: bool = False


@dataclass(slots=True, kw_only=True)
class Decision:
    """The decision of a verb.

    `records` must be written to the journal. `reply` is None if the command is parked under its token. `completions`
    are replies to commands parked earlier, each with its token.
    """

    records: "list[JournalRecord]" = field(default_factory=list)
    reply: "Reply | None" = None
    completions: "list[tuple[int, Reply]]" = field(default_factory=list)
