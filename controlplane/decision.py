"""What deciding a command takes and gives. Pure values: time, ids and randomness arrive as arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controlplane.v1.control_pb2 import Reply
    from controlplane.v1.journal_pb2 import JournalRecord


class Context(NamedTuple):
    """The circumstances of one command.

    `now_ms` is the control plane's own clock, never behind the last journalled one; `new_id` gives 16
    random bytes a call; `token` names who waits for the reply (a parked reply is handed out under it);
    `session` is the number of the session that it came over, 0 where there is none.
    """

    now_ms: int
    new_id: Callable[[], bytes]
    token: int = 0
    session: int = 0


@dataclass(slots=True, kw_only=True)
class Decision:
    """Records to journal, the reply (None: parked under the token), and replies that were parked before."""

    records: "list[JournalRecord]" = field(default_factory=list)
    reply: "Reply | None" = None
    completions: "list[tuple[int, Reply]]" = field(default_factory=list)
