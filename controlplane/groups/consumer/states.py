"""The states of a consumer group and of its members, with Kafka's names (KIP-848).

A group's state is not moved but follows from what it holds (`ConsumerGroup.state`). A member's:

    Stable ─► UnrevokedPartitions   its target lacks what it holds: it has to give that up first
           ─► UnreleasedPartitions  its target has what others still hold
           ─► Stable                it holds its target
"""

from enum import StrEnum


class ConsumerGroupState(StrEnum):
    """How far a group has come towards its target assignment."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group's epoch
    RECONCILING = "Reconciling"  # members are on their way to it
    STABLE = "Stable"


class MemberState(StrEnum):
    """How far a member has come towards its target."""

    STABLE = "Stable"
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"


JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2  # a static member that will be back
