"""The states of a classic group, with Kafka's names, and the transitions between them."""

from enum import StrEnum


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members are joining
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
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

# The states in which a rebalance can begin. In PREPARING_REBALANCE, it has already begun.
REBALANCEABLE = frozenset(
    state for state, targets in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in targets
)


class IllegalTransitionError(Exception):
    """A transition is not in the table, which indicates a bug in Lacuna."""

    def __init__(self, group_id: str, source: GroupState, target: GroupState) -> None:
        super().__init__(f"group {group_id!r} cannot go from {source} to {target}")
        self.source = source
        self.target = target
