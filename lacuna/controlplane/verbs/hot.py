"""ReadHot: the bytes of hot segments, which are in the journal and not in the state."""

from typing import Final

from lacuna.controlplane.v1.log_pb2 import ReadHot
from lacuna.controlplane.verbs.needs import reads_all
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def read_hot(_turn: Turn, _command: ReadHot) -> None:
    """Park the command, which the runtime answers once it has read the journal."""


VERBS: Final = (Verb(read_hot, looks=True, needs=reads_all),)
