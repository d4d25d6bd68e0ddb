"""The states of a consumer group and of its members, with Kafka's names (KIP-848).

A group's state is not stored, but derived from its members and epochs (`ConsumerGroup.state`). A member's state:

    Stable ─► UnrevokedPartitions   it holds partitions that are not in its target, and must give them up first
           ─► UnreleasedPartitions  other members still hold partitions in its target
           ─► Stable                it holds its target
"""

from enum import StrEnum


class ConsumerGroupState(StrEnum):
    """How far a group has progressed towards its target assignment."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group's epoch
    RECONCILING = "Reconciling"  # members do not all hold their targets yet
    STABLE = "Stable"


class MemberState(StrEnum):
    """How far a member has progressed towards its target."""

    STABLE = "Stable"
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"


JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2  # sent by a static member that will come back
