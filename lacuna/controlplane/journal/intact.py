"""The intact part of a damaged or outdated journal."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from lacuna.controlplane import machine
from lacuna.controlplane.journal.journal import (
    HotKey,
    JournalBatch,
    JournalOfAnotherVersion,
    Snapshot,
)
from lacuna.controlplane.journal.replica import restored
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.journal_pb2 import JournalRecord


@dataclass(frozen=True, slots=True)
class Salvage:
    """The intact part of the journal `name`: the `state` at `position`.

    At least everything up to `reached` was acknowledged. `problems` contains one sentence per problem. `hot` contains
    the remaining hot segments, or is None if all of them remain.
    """

    name: str
    cluster_id: str
    fencing_token: int
    position: int
    reached: int
    state: State
    problems: Sequence[str]
    hot: Set[HotKey] | None = None


def replayed(
    name: str,
    snapshot: Snapshot | None,
    batches: Sequence[JournalBatch],
    problems: list[str],
) -> tuple[State, int]:
    """Return the state after the last batch that can be replayed, and that batch's position.

    Adds a problem if there are later batches. Raises JournalOfAnotherVersion.
    """
    state = State() if snapshot is None else restored(snapshot)
    position = 0 if snapshot is None else snapshot.position
    for number, batch in enumerate(batches):
        try:
            for record in batch.records:
                machine.replay(state, JournalRecord.FromString(record))
        except machine.LaterFormatError as error:
            # The journal is not damaged, but was written by a later version, so the remaining records must not be given
            # up.
            raise JournalOfAnotherVersion(
                f"{name} contains {error}, up to position {batch.position}"
            ) from error
        except (DecodeError, LookupError, ValueError, OverflowError) as error:
            problems.append(
                f"the batch that ends at position {batch.position} has a record that does not follow the previous one: "
                f"{error!r}"
            )
            return replayed(name, snapshot, batches[:number], problems)
        position = batch.position
    return state, position
