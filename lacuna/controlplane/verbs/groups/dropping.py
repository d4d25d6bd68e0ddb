"""Drops classic groups that have no members, offsets or generation."""

from collections.abc import Callable
from functools import wraps
from typing import Protocol, TypeVar

from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.turn import Turn


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


C = TypeVar("C", bound=_OfGroup)
R = TypeVar("R", bound=Reply | None)


def of_one_group(decide: Callable[[Turn, C], R]) -> Callable[[Turn, C], R]:
    """Decorate a verb about one group, so that a classic group with nothing left in it is dropped afterwards."""

    @wraps(decide)
    def decide_and_drop(turn: Turn, command: C) -> R:
        reply = decide(turn, command)
        group = turn.groups.live.groups.get(command.group_id)
        if group is not None:
            drop_if_nothing(turn, group)
        turn.groups.live.weigh(command.group_id)
        return reply

    return decide_and_drop


def drop_if_nothing(turn: Turn, group: LiveGroup) -> None:
    """Drop a group that has no members, expected members, journalled generation or offsets."""
    if group.members or group.pending_joins or group.state is not GroupState.EMPTY:
        return
    if group.is_emptied:
        return
    is_kept = group.group_id in turn.groups.generations or any(
        record.group.group_generation.group_id == group.group_id for record in turn.records
    )
    if not is_kept and not turn.groups.offsets.has_group(group.group_id):
        del turn.groups.live.groups[group.group_id]
