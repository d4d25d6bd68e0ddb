"""Streams groups as stored in the journal (KIP-1071), a draft of a group's next step, and its volatile part.

A task is one partition of a subtopology. A member runs active tasks, and keeps copies of their state in standby and
warm-up tasks. Only replay changes a group, through `StreamsGroup.apply`. A decision works on a `StreamsDraft`, and
journals the difference.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from lacuna.controlplane.state.groups.consumer.group import read_topics, topics_record
from lacuna.controlplane.state.groups.consumer.live import Deadline, LiveConsumerGroup
from lacuna.controlplane.state.groups.consumer.states import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
)
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    InternalTopicInfo,
    StreamsCurrent,
    StreamsEndpoint,
    StreamsGroupStep,
    StreamsMember,
    StreamsMetadata,
    StreamsTasks,
    StreamsTopology,
    TaskIds,
)

#: A subtopology's id, and a partition.
Task: TypeAlias = tuple[str, int]
#: The topology of a group before its first member, and the topology of a member that has not sent one.
NO_TOPOLOGY: Final = -1
#: The approximate size in bytes of a task in a target or an assignment.
_SIZE_OF_TASK: Final = 32


class StreamsGroupState(StrEnum):
    """The states of a streams group, with Kafka's names."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics are missing, or have the wrong numbers of partitions
    ASSIGNING = "Assigning"  # the target is older than the group's epoch
    RECONCILING = "Reconciling"  # members do not all hold their targets yet
    STABLE = "Stable"


class TaskState(StrEnum):
    """How far a member has progressed towards its target."""

    STABLE = "Stable"
    UNREVOKED = "UnrevokedTasks"  # it has tasks that it must give up first
    UNRELEASED = "UnreleasedTasks"  # other members have not given up tasks in its target


@dataclass(frozen=True, slots=True)
class Tasks:
    """A member's tasks by role. Each active task has the assignment epoch in which the member received it."""

    active: Mapping[Task, int] = field(default_factory=dict)
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    def __len__(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warmup)

    @property
    def roles(self) -> tuple[frozenset[Task], frozenset[Task], frozenset[Task]]:
        return frozenset(self.active), self.standby, self.warmup

    def shares(self, other: "Tasks") -> bool:
        """Whether the two have a task in common, in the same role."""
        pairs = zip(self.roles, other.roles, strict=True)
        return any(not one.isdisjoint(another) for one, another in pairs)

    def is_within(self, other: "Tasks") -> bool:
        """Whether `other` contains all of these tasks in the same roles."""
        return all(one <= another for one, another in zip(self.roles, other.roles, strict=True))

    def joined(self, other: "Tasks") -> "Tasks":
        return Tasks(
            {**self.active, **other.active},
            self.standby | other.standby,
            self.warmup | other.warmup,
        )

    def to_record(self) -> StreamsTasks:
        """Return the message for journal records; equal tasks give equal messages."""
        active = []
        for subtopology_id, partitions in by_subtopology(self.active):
            epochs = [self.active[subtopology_id, each] for each in partitions]
            ids = TaskIds(subtopology_id=subtopology_id, partitions=partitions, epochs=epochs)
            active.append(ids)
        return StreamsTasks(
            active=active, standby=_task_ids(self.standby), warmup=_task_ids(self.warmup)
        )

    @classmethod
    def from_record(cls, record: StreamsTasks) -> "Tasks":
        """Read tasks from a message. Tasks that a member declares have no epochs."""
        active: dict[Task, int] = {}
        for row in record.active:
            epochs = row.epochs or [0] * len(row.partitions)
            for partition, epoch in zip(row.partitions, epochs, strict=False):
                active[row.subtopology_id, partition] = epoch
        return cls(active, _tasks_of(record.standby), _tasks_of(record.warmup))


NO_TASKS: Final = Tasks()


def by_subtopology(tasks: Iterable[Task]) -> Iterator[tuple[str, list[int]]]:
    """Yield each subtopology with the sorted partitions of its tasks."""
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return iter(found.items())


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=each, partitions=partitions)
        for each, partitions in by_subtopology(tasks)
    ]


def _tasks_of(rows: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset((row.subtopology_id, each) for row in rows for each in row.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a member declares about itself. Strings that it does not declare are empty."""

    group_instance_id: str = ""
    rack_id: str = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        texts = (self.group_instance_id, self.rack_id, self.client_id, self.client_host)
        tags = sum(len(key) + len(value) for key, value in self.client_tags)
        return sum(map(len, texts)) + len(self.process_id) + len((self.endpoint or ("",))[0]) + tags

    def to_record(self) -> StreamsMetadata:
        record = StreamsMetadata(
            group_instance_id=self.group_instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            client_tags=dict(self.client_tags),
        )
        if self.endpoint is not None:
            host, port = self.endpoint
            record.endpoint.CopyFrom(StreamsEndpoint(host=host, port=port))
        return record

    @classmethod
    def from_record(cls, record: StreamsMetadata) -> "Metadata":
        return cls(
            group_instance_id=record.group_instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            topology_epoch=record.topology_epoch,
            process_id=record.process_id,
            endpoint=(
                (record.endpoint.host, record.endpoint.port)
                if record.HasField("endpoint")
                else None
            ),
            client_tags=tuple(sorted(record.client_tags.items())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """A member's epochs and state, the tasks assigned to it, and those that it must give up."""

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = JOINING_EPOCH
    state: TaskState = TaskState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS

    def to_record(self) -> StreamsCurrent:
        return StreamsCurrent(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned=self.assigned.to_record(),
            revoking=self.revoking.to_record(),
        )

    @classmethod
    def from_record(cls, record: StreamsCurrent) -> "Current":
        return cls(
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            state=TaskState(record.state),
            assigned=Tasks.from_record(record.assigned),
            revoking=Tasks.from_record(record.revoking),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    metadata: Metadata = field(default_factory=Metadata)
    target: Tasks = NO_TASKS
    current: Current = field(default_factory=Current)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member holds exactly its target for this assignment epoch."""
        current = self.current
        return current.state is TaskState.STABLE and current.member_epoch == assignment_epoch

    @property
    def size(self) -> int:
        current = self.current
        count = len(self.target) + len(current.assigned) + len(current.revoking)
        return self.metadata.size + _SIZE_OF_TASK * count

    def to_record(self, before: "Member | None" = None) -> StreamsMember:
        """Return the message for journal records, with all parts or only those that differ from `before`."""
        record = StreamsMember(member_id=self.member_id)
        if before is None or self.metadata != before.metadata:
            record.metadata.CopyFrom(self.metadata.to_record())
        if before is None or self.target != before.target:
            record.target.CopyFrom(self.target.to_record())
        if before is None or self.current != before.current:
            record.current.CopyFrom(self.current.to_record())
        return record

    @classmethod
    def from_record(cls, record: StreamsMember, before: "Member | None" = None) -> "Member":
        """Read the message from a journal record. Missing parts are taken from `before`."""
        member = before or cls(member_id=record.member_id)
        if record.HasField("metadata"):
            member = replace(member, metadata=Metadata.from_record(record.metadata))
        if record.HasField("target"):
            member = replace(member, target=Tasks.from_record(record.target))
        if record.HasField("current"):
            member = replace(member, current=Current.from_record(record.current))
        return member


def required_topics(topology: StreamsTopology) -> tuple[str, ...]:
    """Return the names of all topics that a topology reads or owns, sorted."""
    names: set[str] = set()
    for each in topology.subtopologies:
        names.update(each.source_topics)
        names.update(info.name for info in each.repartition_source_topics)
        names.update(info.name for info in each.changelog_topics)
    return tuple(sorted(names))


def source_topics(topology: StreamsTopology) -> dict[str, str]:
    """Map the topics that tasks read to the ids of their subtopologies."""
    found: dict[str, str] = {}
    for each in topology.subtopologies:
        found.update(dict.fromkeys(each.source_topics, each.subtopology_id))
        infos = each.repartition_source_topics
        found.update((info.name, each.subtopology_id) for info in infos)
    return found


@dataclass(slots=True, kw_only=True)
class StreamsGroup:
    """The durable state of a group. `topics` are the existing topics of its topology as of its current epoch."""

    group_id: str
    # As in Kafka, the first assignment has epoch 2. A member whose assignment is delayed has epoch 1.
    group_epoch: int = 1
    assignment_epoch: int = 1
    validated_epoch: int = NO_TOPOLOGY
    endpoint_epoch: int = 0
    shut_down_by: str = ""
    standby_count: int = 0
    rack_tags: str = ""
    topology: StreamsTopology | None = None
    members: dict[str, Member] = field(default_factory=dict)
    topics: dict[bytes, int] = field(default_factory=dict)  # topic id → partition count
    described_epoch: int = NO_TOPOLOGY
    description: bytes = b""
    # Derived from the above: instance id → member id; task → the members that hold it or are giving it up, by role; the
    # topics that tasks read, with their subtopologies; and the approximate size of the group in bytes.
    static_members: dict[str, str] = field(default_factory=dict)
    holders: tuple[dict[Task, set[str]], ...] = field(default_factory=lambda: ({}, {}, {}))
    sources: dict[str, str] = field(default_factory=dict)
    members_size: int = 0
    topology_size: int = 0

    @property
    def topology_epoch(self) -> int:
        return NO_TOPOLOGY if self.topology is None else self.topology.epoch

    @property
    def size(self) -> int:
        return self.members_size + self.topology_size + len(self.description)

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology_epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def processes(self, role: int, task: Task) -> set[str]:
        """Return the processes of the members that have a task in this role, or are giving it up."""
        return {self.members[each].metadata.process_id for each in self.holders[role].get(task, ())}

    def apply(self, step: StreamsGroupStep) -> None:
        """Apply a step. A step with a whole group can be applied to an empty one."""
        self.group_epoch = step.group_epoch
        self.assignment_epoch = step.assignment_epoch
        self.validated_epoch = step.validated_epoch
        self.endpoint_epoch = step.endpoint_epoch
        self.shut_down_by = step.shut_down_by
        self.standby_count, self.rack_tags = step.standby_count, step.rack_tags
        for member_id in step.removed_member_ids:
            self._drop(self.members.pop(member_id, None))
        changed = [(record, self.members.get(record.member_id)) for record in step.members]
        for _, before in changed:
            self._drop(before)
        for record, before in changed:
            self._add(Member.from_record(record, before))
        if step.HasField("topics"):
            self.topics = read_topics(step.topics)
        if step.HasField("topology"):
            self.topology = step.topology
            self.sources = source_topics(step.topology)
            self.topology_size = step.topology.ByteSize()
        if step.HasField("described"):
            self.described_epoch = step.described.topology_epoch
            self.description = step.described.description

    def to_step(self) -> StreamsGroupStep:
        """Return the whole group as one step; equal groups yield equal bytes."""
        step = self.head()
        step.members.extend(each.to_record() for _, each in sorted(self.members.items()))
        step.topics.CopyFrom(topics_record(self.topics))
        if self.topology is not None:
            step.topology.CopyFrom(self.topology)
        step.described.topology_epoch = self.described_epoch
        step.described.description = self.description
        return step

    def head(self) -> StreamsGroupStep:
        """Return a step that only restates the group's own fields."""
        return StreamsGroupStep(
            group_id=self.group_id,
            group_epoch=self.group_epoch,
            assignment_epoch=self.assignment_epoch,
            validated_epoch=self.validated_epoch,
            endpoint_epoch=self.endpoint_epoch,
            shut_down_by=self.shut_down_by,
            standby_count=self.standby_count,
            rack_tags=self.rack_tags,
        )

    def _add(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.members_size += member.size
        if member.metadata.group_instance_id:
            self.static_members[member.metadata.group_instance_id] = member.member_id
        for tasks in (member.current.assigned, member.current.revoking):
            for role, some in zip(self.holders, tasks.roles, strict=True):
                for task in some:
                    role.setdefault(task, set()).add(member.member_id)

    def _drop(self, member: Member | None) -> None:
        """Remove everything that is derived from a member."""
        if member is None:
            return
        self.members_size -= member.size
        instance_id = member.metadata.group_instance_id
        if self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        for tasks in (member.current.assigned, member.current.revoking):
            for role, some in zip(self.holders, tasks.roles, strict=True):
                for task in some:
                    if holders := role.get(task):
                        holders.discard(member.member_id)
                        if not holders:
                            del role[task]


class StreamsDraft:
    """A streams group that a decision is changing. Its members are copied on the first change.

    `base` stays unchanged, and is None if there was no streams group.
    """

    def __init__(self, group_id: str, base: StreamsGroup | None) -> None:
        self.base = base
        self.group = base or StreamsGroup(group_id=group_id)
        self.step = self.group.head()
        self.members = self.group.members
        self.static_members = self.group.static_members
        self.topology = self.group.topology
        self.topics = self.group.topics
        self._changed: dict[str, None] = {}

    @property
    def group_id(self) -> str:
        return self.group.group_id

    @property
    def topology_epoch(self) -> int:
        """The epoch of the group's topology after this step."""
        return NO_TOPOLOGY if self.topology is None else self.topology.epoch

    @property
    def growth(self) -> int:
        """The number of bytes by which the members and the topology have grown so far."""
        grown = sum(
            (self.members[each].size if each in self.members else 0)
            - (self.group.members[each].size if each in self.group.members else 0)
            for each in self._changed
        )
        is_new = self.topology is not None and self.group.topology is None
        return grown + (self.topology.ByteSize() if is_new and self.topology is not None else 0)

    def put(self, member: Member) -> None:
        """Add or replace a member."""
        if self.members.get(member.member_id) is member:
            return
        self._note(member.member_id)
        self.members[member.member_id] = member
        if member.metadata.group_instance_id:
            self.static_members[member.metadata.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, whose tasks become free when the step is applied."""
        self._note(member_id)
        instance_id = self.members.pop(member_id).metadata.group_instance_id
        if self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _note(self, member_id: str) -> None:
        if not self._changed:
            self.members, self.static_members = dict(self.members), dict(self.static_members)
        self._changed[member_id] = None

    def retarget(self, targets: Mapping[str, Tasks]) -> None:
        """Give each member its target from `targets`, or an empty one, for the group's epoch."""
        for member_id, member in list(self.members.items()):
            target = targets.get(member_id, NO_TASKS)
            if target != member.target:
                self.put(replace(member, target=target))
        self.step.assignment_epoch = self.step.group_epoch

    def to_step(self) -> StreamsGroupStep | None:
        """Return the step from the base to this draft, or None if nothing has changed."""
        step = self.step
        for member_id in self._changed:
            before, member = self.group.members.get(member_id), self.members.get(member_id)
            if member is not None and member != before:
                step.members.append(member.to_record(before))
            elif member is None and before is not None:
                step.removed_member_ids.append(member_id)
        if self.base is None or self.topics is not self.group.topics:
            step.topics.CopyFrom(topics_record(self.topics))
        if self.topology is not None and self.topology is not self.group.topology:
            step.topology.CopyFrom(self.topology)
        return step if self.base is None or step != self.group.head() else None


class Subtopology(NamedTuple):
    """A subtopology whose topics meet its requirements. Its tasks are numbered from 0."""

    task_count: int
    is_stateful: bool
    #: The names and partition counts of the topics that its tasks read.
    sources: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A topology configured for the cluster's topics: subtopologies by id, or a problem, given as one of Kafka's
    statuses and a detail.

    `topology` contains the partition counts of internal topics. The coordinator must create those in `missing`.
    """

    topology: StreamsTopology
    subtopologies: Mapping[str, Subtopology] = field(default_factory=dict)
    missing: Sequence[InternalTopicInfo] = ()
    problem: tuple[int, str] | None = None


@dataclass(slots=True)
class LiveStreamsGroup(LiveConsumerGroup):
    """The deadlines of a streams group, and the task progress that its members report."""

    #: Member id → changelog offsets of its tasks, and their ends.
    offsets: dict[str, tuple[dict[Task, int], dict[Task, int]]] = field(default_factory=dict)
    #: The time until which the first assignment waits for more members, and the time of the last assignment.
    delayed_until_ms: int | None = None
    assigned_ms: int | None = None
    #: When a member was last asked to describe the topology.
    asked_ms: int | None = None
    configured: Configured | None = None

    def begin(self, group: StreamsGroup, session_timeout_ms: int, now_ms: int) -> None:
        for member in group.members.values():
            self.set(member.member_id, Deadline.SESSION, now_ms + session_timeout_ms)
            self.follow_tasks(None, member, now_ms)

    def follow_tasks(self, before: Member | None, member: Member, now_ms: int) -> None:
        """Start or clear a member's revocation deadline if its state has changed from `before`."""
        if before is not None and before.current == member.current:
            return
        is_away = member.current.member_epoch == LEAVING_STATIC_EPOCH
        if member.current.state is TaskState.UNREVOKED and not is_away:
            due_ms = now_ms + max(member.metadata.rebalance_timeout_ms, 0)
            self.set(member.member_id, Deadline.REVOCATION, due_ms)
        else:
            self.clear(member.member_id, Deadline.REVOCATION)

    def forget(self, member_id: str) -> None:
        LiveConsumerGroup.forget(self, member_id)
        self.offsets.pop(member_id, None)

    def _shift(self, by_ms: int) -> None:
        LiveConsumerGroup._shift(self, by_ms)
        if self.delayed_until_ms is not None:
            self.delayed_until_ms += by_ms
        if self.assigned_ms is not None:
            self.assigned_ms += by_ms
