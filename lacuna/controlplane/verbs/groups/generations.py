"""Journals and replays the generations of classic groups."""

from typing import Final

from lacuna.controlplane.shared.internal_topics import Kind
from lacuna.controlplane.state.internal import NameKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupRecord
from lacuna.controlplane.verbs import internal
from lacuna.controlplane.verbs.turn import Turn


def keep_generation(turn: Turn, generation: GroupGeneration) -> None:
    """Journal a generation of a classic group."""
    turn.journal_group(GroupRecord(group_generation=generation))


def replay_group_generation(state: State, record: GroupGeneration, now_ms: int) -> None:
    """Store a classic group's generation."""
    internal.drop_consumer_group(state, record.group_id, now_ms)
    state.groups.keep_generation(record)
    key = NameKey(Kind.GENERATION, record.group_id)
    state.internal.write_group(record.group_id, [key], now_ms)


REPLAYS: Final = (replay_group_generation,)
