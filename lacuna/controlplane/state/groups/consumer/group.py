"""A consumer group as stored in the journal, and a draft of its next step.

group.apply(step)              # replay, which is the only way to change a group
group.to_step()                # the whole group, for a snapshot
draft = Draft(group_id, base)  # decide on a copy, then journal the difference: draft.to_step()
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.groups.consumer.assignments import Assignment, partitions_of
from lacuna.controlplane.state.groups.consumer.member import Member, size_of_subscription
from lacuna.controlplane.state.groups.consumer.states import ConsumerGroupState
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.v1.cluster_pb2 import PartitionCounts
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupStep

#: The epoch of a group before its first member, which joins at epoch 2, as in Kafka 4.4.
FIRST_EPOCH: Final = 1


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """The durable state of a group. `topics` are the subscribed topics as of its current epoch."""

    group_id: str
    group_epoch: int = FIRST_EPOCH
    assignment_epoch: int = FIRST_EPOCH
    members: dict[str, Member] = field(default_factory=dict)
    topics: dict[bytes, int] = field(default_factory=dict)  # topic id → partition count
    # Derived from the members: instance id → member id, and the member that holds or is giving up each partition.
    static_members: dict[str, str] = field(default_factory=dict)
    owners: dict[PartitionKey, str] = field(default_factory=dict)
    # The size of all subscriptions, in bytes.
    metadata_size: int = 0

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def apply(self, step: ConsumerGroupStep) -> None:
        """Apply a step. A step with a whole group can be applied to an empty one."""
        self.group_epoch = step.group_epoch
        self.assignment_epoch = step.assignment_epoch
        for member_id in step.removed_member_ids:
            removed = self.members.pop(member_id, None)
            self._drop(removed)
            self.metadata_size += _growth(removed, None)
        changed = [(record, self.members.get(record.member_id)) for record in step.members]
        for _, before in changed:
            self._drop(before)
        for record, before in changed:
            member = Member.from_record(record, before)
            self._add(member)
            self.metadata_size += _growth(before, member)
        if step.HasField("topics"):
            self.topics = read_topics(step.topics)

    def to_step(self) -> ConsumerGroupStep:
        """Return the whole group as one step; equal groups yield equal bytes."""
        return ConsumerGroupStep(
            group_id=self.group_id,
            group_epoch=self.group_epoch,
            assignment_epoch=self.assignment_epoch,
            members=[each.to_record() for _, each in sorted(self.members.items())],
            topics=topics_record(self.topics),
        )

    def _add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.subscription.group_instance_id:
            self.static_members[member.subscription.group_instance_id] = member.member_id
        for held in (member.current.assigned, member.current.revoking):
            for key in partitions_of(held):
                self.owners[key] = member.member_id

    def _drop(self, member: Member | None) -> None:
        if member is None:
            return
        instance_id = member.subscription.group_instance_id
        if self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        for held in (member.current.assigned, member.current.revoking):
            for key in partitions_of(held):
                if self.owners.get(key) == member.member_id:
                    del self.owners[key]


class Draft:
    """A consumer group that a decision is changing, copied on the first change. `base` stays unchanged.

    `base` is None if there was no consumer group.
    """

    def __init__(self, group_id: str, base: ConsumerGroup | None) -> None:
        self.group_id = group_id
        self.base = base
        group = base or ConsumerGroup(group_id=group_id)
        self.group_epoch = group.group_epoch
        self.assignment_epoch = group.assignment_epoch
        self.members = group.members
        self.static_members = group.static_members
        self.owners = group.owners
        self.topics = group.topics
        self.metadata_size = group.metadata_size
        # The version of the cluster's topics, if they were checked.
        self.topics_version: int | None = None
        # The classic group that this consumer group replaces.
        self.upgraded: LiveGroup | None = None
        # member id → the previous member, None if it is new
        self.changed: dict[str, Member | None] = {}

    def put(self, member: Member) -> None:
        """Add or replace a member."""
        before = self.members.get(member.member_id)
        if before is member:
            return
        self._note(member.member_id)
        self.metadata_size += _growth(before, member)
        self.members[member.member_id] = member
        if member.subscription.group_instance_id:
            self.static_members[member.subscription.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, whose partitions become free when the step is applied."""
        self._note(member_id)
        member = self.members.pop(member_id)
        self.metadata_size += _growth(member, None)
        instance_id = member.subscription.group_instance_id
        if self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def retarget(self, targets: dict[str, Assignment]) -> None:
        """Give each member its target from `targets`, or an empty one, for the group's epoch."""
        for member_id, member in list(self.members.items()):
            target = targets.get(member_id, {})
            if target != member.target:
                self.put(replace(member, target=target))
        self.assignment_epoch = self.group_epoch

    def is_waiting_for_others(self, member: Member) -> bool:
        """Whether other members still hold partitions in this member's target."""
        return any(
            self.owners.get(key, member.member_id) != member.member_id
            for key in partitions_of(member.target)
        )

    def to_step(self) -> ConsumerGroupStep | None:
        """Return the step from the base to this draft, or None if nothing has changed."""
        step = ConsumerGroupStep(
            group_id=self.group_id,
            group_epoch=self.group_epoch,
            assignment_epoch=self.assignment_epoch,
        )
        for member_id, before in self.changed.items():
            member = self.members.get(member_id)
            if member is not None and member != before:
                step.members.append(member.to_record(before))
            elif member is None and before is not None:
                step.removed_member_ids.append(member_id)
        if self.base is None or self.topics != self.base.topics:
            step.topics.CopyFrom(topics_record(self.topics))
        is_change = (
            self.base is None
            or bool(step.members or step.removed_member_ids or step.HasField("topics"))
            or (self.group_epoch, self.assignment_epoch)
            != (self.base.group_epoch, self.base.assignment_epoch)
        )
        return step if is_change else None

    def _note(self, member_id: str) -> None:
        """Note that a member is about to change, and remember its state in the base."""
        if not self.changed:
            self.members = dict(self.members)
            self.static_members = dict(self.static_members)
        before = self.base.members.get(member_id) if self.base is not None else None
        self.changed.setdefault(member_id, before)


def _growth(before: Member | None, now: Member | None) -> int:
    """Return the number of bytes by which subscriptions grow. The common case, in which they are unchanged, is fast."""
    was = before.subscription if before is not None else None
    is_ = now.subscription if now is not None else None
    if was is is_:
        return 0
    return (size_of_subscription(is_) if is_ else 0) - (size_of_subscription(was) if was else 0)


def topics_record(topics: Mapping[bytes, int]) -> PartitionCounts:
    ordered = dict(sorted(topics.items()))
    return PartitionCounts(topic_ids=ordered, partition_counts=ordered.values())


def read_topics(record: PartitionCounts) -> dict[bytes, int]:
    return dict(zip(record.topic_ids, record.partition_counts, strict=True))
