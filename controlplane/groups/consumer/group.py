"""A consumer group as the journal keeps it, and a draft of its next step.

group.apply(step)              # replay: the one way in which a group changes
group.to_step()                # all of it, for a snapshot
draft = Draft(group_id, base)  # decide on a copy, then journal how it differs: draft.to_step()
"""

from dataclasses import dataclass, field, replace

from controlplane.groups.consumer.assignments import Assignment, partitions_of
from controlplane.groups.consumer.member import Member, size_of_subscription
from controlplane.groups.consumer.states import ConsumerGroupState
from controlplane.groups.live import LiveGroup
from controlplane.v1.consumer_groups_pb2 import ConsumerGroupStep, SubscribedTopics

PartitionKey = tuple[bytes, int]  # (topic id, partition)


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """Durable state of one group. `topics` are those that its epoch has taken account of."""

    group_id: str
    group_epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    topics: dict[bytes, int] = field(default_factory=dict)  # topic id → partition count
    # Derived from the members: instance id → member id, and who holds or still gives up what.
    static_members: dict[str, str] = field(default_factory=dict)
    owners: dict[PartitionKey, str] = field(default_factory=dict)
    # Of all subscriptions, bytes.
    metadata_size: int = 0

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def apply(self, step: ConsumerGroupStep) -> None:
        """Take one step. Also a whole group, into an empty one."""
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
            counts = zip(step.topics.topic_ids, step.topics.partition_counts, strict=True)
            self.topics = dict(counts)

    def to_step(self) -> ConsumerGroupStep:
        """The whole group; equal groups give equal bytes."""
        return ConsumerGroupStep(
            group_id=self.group_id,
            group_epoch=self.group_epoch,
            assignment_epoch=self.assignment_epoch,
            members=[each.to_record() for _, each in sorted(self.members.items())],
            topics=_topics_record(self.topics),
        )

    def _add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.subscription.group_instance_id:
            self.static_members[member.subscription.group_instance_id] = member.member_id
        for held in (member.current.assigned, member.current.revoking):
            for key in partitions_of(held):
                self.owners[key] = member.member_id

    def _drop(self, member: Member | None) -> None:
        """Forget what is derived from a member."""
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
    """A group in the making: a copy to decide on, copied with the first change. `base` is None where
    there was no consumer group.
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
        self.topics_version: int | None = None  # of the cluster, where it was looked at
        self.upgraded: LiveGroup | None = None  # the classic group that it was up to now
        self.changed: dict[str, Member | None] = {}  # member id → as it was, None: new

    def put(self, member: Member) -> None:
        """Add a member or take over how it changed."""
        before = self.members.get(member.member_id)
        if before is member:
            return
        self._note(member.member_id)
        self.metadata_size += _growth(before, member)
        self.members[member.member_id] = member
        if member.subscription.group_instance_id:
            self.static_members[member.subscription.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Take a member out; what it held is free from the next step on."""
        self._note(member_id)
        member = self.members.pop(member_id)
        self.metadata_size += _growth(member, None)
        instance_id = member.subscription.group_instance_id
        if self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def retarget(self, targets: dict[str, Assignment]) -> None:
        """A new target for each member; nothing for those that are not named."""
        for member_id, member in list(self.members.items()):
            target = targets.get(member_id, {})
            if target != member.target:
                self.put(replace(member, target=target))
        self.assignment_epoch = self.group_epoch

    def is_waiting_for_others(self, member: Member) -> bool:
        """Whether others still hold something of this member's target."""
        return any(
            self.owners.get(key, member.member_id) != member.member_id
            for key in partitions_of(member.target)
        )

    def to_step(self) -> ConsumerGroupStep | None:
        """How it differs from its base; None: not at all."""
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
            step.topics.CopyFrom(_topics_record(self.topics))
        is_change = (
            self.base is None
            or bool(step.members or step.removed_member_ids or step.HasField("topics"))
            or (self.group_epoch, self.assignment_epoch)
            != (self.base.group_epoch, self.base.assignment_epoch)
        )
        return step if is_change else None

    def _note(self, member_id: str) -> None:
        """A member is about to change: the first time it is kept as it was, in the base."""
        if not self.changed:
            self.members = dict(self.members)
            self.static_members = dict(self.static_members)
        before = self.base.members.get(member_id) if self.base is not None else None
        self.changed.setdefault(member_id, before)


def _growth(before: Member | None, now: Member | None) -> int:
    """By how much a group's subscriptions grow. Most changes leave them alone, and nothing is counted."""
    was = before.subscription if before is not None else None
    is_ = now.subscription if now is not None else None
    if was is is_:
        return 0
    return (size_of_subscription(is_) if is_ else 0) - (size_of_subscription(was) if was else 0)


def _topics_record(topics: dict[bytes, int]) -> SubscribedTopics:
    ordered = sorted(topics.items())
    return SubscribedTopics(
        topic_ids=[topic_id for topic_id, _ in ordered],
        partition_counts=[count for _, count in ordered],
    )
