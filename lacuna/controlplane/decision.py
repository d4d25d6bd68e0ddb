"""The input and output of a decision, as pure values: time, ids and randomness are passed in as arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lacuna.controlplane.v1.control_pb2 import Reply
    from lacuna.controlplane.v1.journal_pb2 import JournalRecord


class Context(NamedTuple):
    """The circumstances in which a command is decided.

    `now_ms` is the time of the control plane's clock, never earlier than that of the last journal record. Each call to
    `new_id` returns 16 random bytes. `token` identifies the caller that is waiting for the reply if the command is
    parked. `session` is the number of the session that sent the command, or 0 if none did. While `is_time_doubtful` is
    true, the clocks disagree with `now_ms`, and nothing may be deleted based on age.
    """

    now_ms: int
    new_id: Callable[[], bytes]
    token: int = 0
    session: int = 0
    is_time_doubtful: bool = False


@dataclass(slots=True, kw_only=True)
class Decision:
    """The result of a verb.

    `records` must be written to the journal. `reply` is None if the command has been parked under its token.
    `completions` are replies to commands parked earlier, each with its token.
    """

    records: "list[JournalRecord]" = field(default_factory=list)
    reply: "Reply | None" = None
    completions: "list[tuple[int, Reply]]" = field(default_factory=list)
