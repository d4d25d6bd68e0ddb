"""ReadHot: the bytes of hot segments, which are in the journal and not in the state."""

from collections.abc import Iterator
from typing import Final

from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.rights import Need
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.log_pb2 import ReadHot
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def read_hot(_turn: Turn, _command: ReadHot) -> None:
    """Park the command, which the runtime answers once it has read the journal."""


def _needs(_command: ReadHot, _state: State) -> Iterator[Need]:
    # A segment has records of several topics, and a job that may read only some of them gets all of its bytes. It
    # could read the same bytes in the bucket, where every segment would be without hot segments: ACLs do not restrict
    # a job's credentials for the bucket, and encrypted objects are encrypted here, too (docs/security.md). A job that
    # reads no topic at all has no use for them.
    yield Need((Operation.READ,), ResourceType.TOPIC, None)


VERBS: Final = (Verb(read_hot, looks=True, needs=_needs),)
