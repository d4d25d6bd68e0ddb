"""Assigns tasks to the members of a streams group, and moves members towards their targets (KIP-1071).

`assign_sticky` follows Kafka's assignor of that name. Members keep their active tasks up to their share of all tasks.
The other active tasks go to members with a standby copy, and the rest to the processes with the lowest load. A standby
task stays where it is, or goes to where the task was active. No process has a task twice. Kafka 4.4 does not assign
warm-up tasks yet, but `reconcile` handles them.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lacuna.controlplane.state.groups.streams import (
    NO_TASKS,
    Current,
    Member,
    StreamsGroup,
    Subtopology,
    Task,
    Tasks,
    TaskState,
)

#: Kafka's name of the only assignor.
STICKY: Final = "sticky"
ACTIVE, STANDBY, WARMUP = range(3)


class Runner(NamedTuple):
    """A member as the assignor sees it: its process, its tasks, and the changelog offsets that it has read."""

    member_id: str
    process_id: str
    tasks: Tasks = NO_TASKS
    offsets: Mapping[Task, int] = {}


@dataclass(slots=True)
class _Process:
    index: int
    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[Task] = field(default_factory=set)
    total: int = 0
    #: A heap of (number of tasks, member); only the entry with a member's highest number is current.
    _least: list[tuple[int, str]] = field(default_factory=list)

    @property
    def load(self) -> float:
        """The number of tasks per member."""
        return self.total / len(self.counts)

    def add(self, member_id: str) -> None:
        self.counts[member_id] = 0
        heapq.heappush(self._least, (0, member_id))

    def give(self, member_id: str, task: Task) -> int:
        """Give a member a task, and return how many it now has."""
        self.tasks.add(task)
        self.total += 1
        self.counts[member_id] += 1
        heapq.heappush(self._least, (self.counts[member_id], member_id))
        return self.counts[member_id]

    def least_loaded(self) -> str:
        while self._least[0][0] != self.counts[self._least[0][1]]:
            heapq.heappop(self._least)
        return self._least[0][1]


@dataclass(slots=True)
class _Quota:
    """How many tasks each member that is not yet full may have, if tasks are spread evenly."""

    tasks: int
    members: int

    @property
    def each(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def note(self, count: int) -> None:
        """Note how many tasks a member now has. Once it is full, the others share the remaining tasks."""
        if count == self.each:
            self.tasks -= count
            self.members -= 1


class _Assigning:
    def __init__(
        self, runners: Sequence[Runner], topology: Mapping[str, Subtopology], standby_count: int
    ) -> None:
        self.active = [
            (subtopology_id, partition)
            for subtopology_id, each in topology.items()
            for partition in range(each.task_count)
        ]
        self.stateful = [task for task in self.active if topology[task[0]].is_stateful]
        self.standby_count = standby_count
        self.processes: dict[str, _Process] = {}
        self.process_of: dict[str, _Process] = {}
        for runner in runners:
            new = _Process(len(self.processes))
            process = self.processes.setdefault(runner.process_id, new)
            process.add(runner.member_id)
            self.process_of[runner.member_id] = process
        count = len(self.active) + standby_count * len(self.stateful)
        self.active_quota = _Quota(len(self.active), len(runners))
        self.quota = _Quota(count, len(runners))
        self.before_active = {
            task: each.member_id for each in runners for task in each.tasks.active
        }
        self.before_standby = _ranked(runners)
        #: The tasks of each member by role.
        self.given: dict[str, tuple[set[Task], set[Task]]] = {
            each.member_id: (set(), set()) for each in runners
        }

    def give(self, member_id: str, task: Task, role: int) -> None:
        count = self.process_of[member_id].give(member_id, task)
        self.given[member_id][role].add(task)
        if role == ACTIVE:
            self.active_quota.note(count)
        self.quota.note(count)

    def is_below(self, quota: _Quota, member_id: str) -> bool:
        return self.process_of[member_id].counts[member_id] < quota.each

    def least_of(self, member_ids: Iterable[str], task: Task | None = None) -> str | None:
        """Return the least loaded member whose process does not have the task; in a tie, the first."""
        best: tuple[float, int] | None = None
        found = None
        for member_id in member_ids:
            process = self.process_of[member_id]
            if task is not None and task in process.tasks:
                continue
            load = process.load, process.counts[member_id]
            if best is None or (load[0] < best[0] and load[1] < best[1]):
                best, found = load, member_id
        return found

    def assign_active(self) -> None:
        left = []
        for task in sorted(self.active, key=lambda each: (each[1], each[0])):
            before = self.before_active.get(task)
            if before is not None and self.is_below(self.active_quota, before):
                self.give(before, task, ACTIVE)
            else:
                left.append(task)
        rest = []
        for task in left:
            member_id = self.least_of(self.before_standby.get(task, ()))
            if member_id is not None and self.is_below(self.active_quota, member_id):
                self.give(member_id, task, ACTIVE)
            else:
                rest.append(task)
        heap = self._heap()
        for task in sorted(rest):
            self._give_to_least(heap, task, ACTIVE)

    def assign_standby(self) -> None:
        """Assign standby tasks for each stateful task, as long as there are processes for them."""
        left: list[tuple[Task, int]] = []
        for task in sorted(self.stateful, key=lambda each: (each[1], each[0]), reverse=True):
            for count in range(self.standby_count, 0, -1):
                member_id = self._standby_for(task)
                if member_id is None:
                    left.append((task, count))
                    break
                self.give(member_id, task, STANDBY)
        heap = self._heap()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._give_to_least(heap, task, STANDBY):
                    break

    def _standby_for(self, task: Task) -> str | None:
        """Return a member that may have the task and had it before, as active or standby."""
        before = self.before_active.get(task)
        lacks_it = before is not None and task not in self.process_of[before].tasks
        if before is not None and lacks_it and self.is_below(self.quota, before):
            return before
        member_id = self.least_of(self.before_standby.get(task, ()), task)
        is_free = member_id is not None and self.is_below(self.quota, member_id)
        return member_id if is_free else None

    def _heap(self) -> list[tuple[float, int, _Process]]:
        heap = [(each.load, each.index, each) for each in self.processes.values()]
        heapq.heapify(heap)
        return heap

    def _give_to_least(
        self, heap: list[tuple[float, int, _Process]], task: Task, role: int
    ) -> bool:
        """Give a task to the least loaded process that does not have it. Return whether there is one."""
        passed = []
        has_given = False
        while heap and not has_given:
            _, _, process = heapq.heappop(heap)
            if task not in process.tasks:
                self.give(process.least_loaded(), task, role)
                has_given = True
            passed.append(process)
        for process in passed:
            heapq.heappush(heap, (process.load, process.index, process))
        return has_given


def _ranked(runners: Sequence[Runner]) -> dict[Task, list[str]]:
    """Map each task to the members with a standby copy, followed by those that have read part of its changelog."""
    found: dict[Task, list[tuple[bool, int, str]]] = {}
    for each in runners:
        for task in each.tasks.standby:
            found.setdefault(task, []).append((False, -each.offsets.get(task, 0), each.member_id))
        for task, offset in each.offsets.items():
            if task not in each.tasks.standby:
                found.setdefault(task, []).append((True, -offset, each.member_id))
    return {
        task: [member_id for *_, member_id in sorted(candidates)]
        for task, candidates in found.items()
    }


def assign_sticky(
    runners: Sequence[Runner], topology: Mapping[str, Subtopology], standby_count: int
) -> dict[str, Tasks]:
    """Return the target of each member. Equal inputs yield equal targets."""
    if not runners:
        return {}
    assigning = _Assigning(runners, topology, standby_count)
    assigning.assign_active()
    if standby_count:
        assigning.assign_standby()
    return {
        member_id: Tasks(dict.fromkeys(active, 0), frozenset(standby))
        for member_id, (active, standby) in assigning.given.items()
    }


def reconcile(
    group: StreamsGroup, member: Member, assignment_epoch: int, owned: Tasks | None
) -> Member:
    """Return the member after one step, or the same object if there is nothing to do.

    `owned` contains the tasks that the member declares, or is None without a declaration. A member gives tasks up only
    by sending a declaration without them.
    """
    current = member.current
    if member.is_reconciled_to(assignment_epoch):
        return member
    if current.state is TaskState.UNREVOKED:
        if _has_any(owned, current.revoking):
            return member
        return _Step(group, member, assignment_epoch, owned).result(current.member_epoch + 1)
    return _Step(group, member, assignment_epoch, owned).result(current.member_epoch)


def _has_any(owned: Tasks | None, revoking: Tasks) -> bool:
    return owned is None or owned.shares(revoking)


class _Step:
    """One step of a member: what it keeps, gives up and receives in each role.

    A process runs a task in one role only, so a member receives a task only when no member of its process has it in
    another role. A member keeps a task in its old role until it has the new one.
    """

    def __init__(
        self, group: StreamsGroup, member: Member, assignment_epoch: int, owned: Tasks | None
    ) -> None:
        self._group = group
        self._member = member
        self._epoch = assignment_epoch
        self._owned = owned
        self._before = member.current.assigned.roles
        self._target = member.target.roles
        self.kept = [
            set(one & other) for one, other in zip(self._before, self._target, strict=True)
        ]
        self.lost = [
            set(one - other) for one, other in zip(self._before, self._target, strict=True)
        ]
        wanted = [set(one - other) for one, other in zip(self._target, self._before, strict=True)]
        self.new = [
            {task for task in some if not self._is_held(role, task)}
            for role, some in enumerate(wanted)
        ]
        self.has_unreleased = any(
            len(some) > len(new) for some, new in zip(wanted, self.new, strict=True)
        )

    def _is_held(self, role: int, task: Task) -> bool:
        """Whether this member or another one must give up a task before this member can have it."""
        process = self._member.metadata.process_id
        here = [process in self._group.processes(each, task) for each in (ACTIVE, STANDBY, WARMUP)]
        others = [
            is_here and task not in before
            for is_here, before in zip(here, self._before, strict=True)
        ]
        if role == ACTIVE:
            return bool(self._group.holders[ACTIVE].get(task)) or others[STANDBY] or others[WARMUP]
        if role == STANDBY:
            return others[ACTIVE] or here[STANDBY] or others[WARMUP]
        return here[ACTIVE] or others[STANDBY] or here[WARMUP]

    def result(self, member_epoch: int) -> Member:
        """Return the member after the step, with `member_epoch` if it must give up tasks first."""
        self._convert()
        revoking = self._tasks(self.lost)
        must_revoke = bool(len(revoking)) and _has_any(self._owned, revoking)
        for role in (STANDBY, WARMUP):
            promoted = self._before[role] & self._target[ACTIVE]
            self.kept[role] |= {
                task for task in promoted if must_revoke or task not in self.new[ACTIVE]
            }
        kept = self._tasks(self.kept)
        if must_revoke:
            return self._moved(member_epoch, TaskState.UNREVOKED, kept, revoking)
        state = TaskState.UNRELEASED if self.has_unreleased else TaskState.STABLE
        return self._moved(self._epoch, state, kept.joined(self._tasks(self.new)), NO_TASKS)

    def _convert(self) -> None:
        """Change the roles of tasks within this member, which does not have to give them up."""
        for task in self._before[ACTIVE] & self.new[STANDBY]:
            self._grant(STANDBY, task)
        for old, new in ((STANDBY, WARMUP), (WARMUP, STANDBY)):
            for task in self._before[old] & self.new[new]:
                self._grant(new, task)
                self.lost[old].discard(task)
        for role in (STANDBY, WARMUP):
            self.lost[role] -= self._target[ACTIVE]

    def _grant(self, role: int, task: Task) -> None:
        self.new[role].discard(task)
        self.kept[role].add(task)

    def _tasks(self, roles: Sequence[set[Task]]) -> Tasks:
        epochs = self._member.current.assigned.active
        active = {task: epochs.get(task, self._epoch) for task in roles[ACTIVE]}
        return Tasks(active, frozenset(roles[STANDBY]), frozenset(roles[WARMUP]))

    def _moved(self, epoch: int, state: TaskState, assigned: Tasks, revoking: Tasks) -> Member:
        before = self._member.current
        current = Current(
            member_epoch=epoch,
            previous_member_epoch=before.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )
        if replace(current, previous_member_epoch=before.previous_member_epoch) == before:
            return self._member
        return replace(self._member, current=current)
