"""The states of a classic group, with Kafka's names, and the moves between them."""

from enum import StrEnum


class GroupState(StrEnum):
    """Where a group is in a rebalance."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members join
    COMPLETING_REBALANCE = "CompletingRebalance"  # the leader's assignment is awaited
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}

# From here a rebalance can begin; in PREPARING_REBALANCE one has begun already.
REBALANCEABLE = frozenset(
    state for state, targets in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in targets
)


class IllegalTransitionError(Exception):
    """A move between states that the table does not list: our own mistake."""

    def __init__(self, group_id: str, source: GroupState, target: GroupState) -> None:
        super().__init__(f"group {group_id!r} cannot go from {source} to {target}")
        self.source = source
        self.target = target
