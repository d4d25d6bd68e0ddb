"""Share groups as stored in the journal (KIP-932): members like those of consumer groups, and share partitions.

A share partition is a group's progress in one partition: runs of acquired offsets between its start offset (that of the
first unfinished record) and its end offset. Offsets in between that belong to no run are holes, for example where a
transaction was aborted. Only replay changes a share partition; decisions create new runs and journal them.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.v1.share_pb2 import (
    SharePartitionsStep,
    SharePartitionStep,
    ShareRun,
)

#: The start offset of a share partition before its first member fetches.
NO_OFFSET: Final = -1
#: The approximate size of a run in bytes.
SIZE_OF_RUN: Final = 160


class RecordState(IntEnum):
    """The states of records, with Kafka's numbers. Archiving records wait for their dead letters (KIP-1191)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINAL: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Run:
    """The offsets [first_offset, end_offset), which share one state. Acquired records are held for a limited time.

    For archiving records, `is_rejected` means that a member rejected them; otherwise, their deliveries ran out.
    """

    first_offset: int
    end_offset: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    locked_until_ms: int = 0
    is_rejected: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the records will never be delivered again."""
        return self.state in FINAL

    def cut(self, first_offset: int, end_offset: int) -> "Run":
        first, end = max(self.first_offset, first_offset), min(self.end_offset, end_offset)
        return (
            self
            if (first, end) == (self.first_offset, self.end_offset)
            else replace(self, first_offset=first, end_offset=end)
        )

    def follows(self, other: "Run") -> bool:
        """Whether this run directly continues the other one, so the two can be joined into one run."""
        return other.end_offset == self.first_offset and self.fate == other.fate

    @property
    def fate(self) -> tuple[object, ...]:
        """Everything but the offsets. In a final state, past deliveries no longer matter."""
        if self.is_final:
            return (self.state,)
        held = self.member_id, self.locked_until_ms
        return self.state, self.delivery_count, *held, self.is_rejected

    def record(self) -> ShareRun:
        return ShareRun(
            first_offset=self.first_offset,
            end_offset=self.end_offset,
            state=self.state,
            delivery_count=self.delivery_count,
            member_id=self.member_id,
            locked_until_ms=self.locked_until_ms,
            is_rejected=self.is_rejected,
        )

    @classmethod
    def of(cls, record: ShareRun) -> "Run":
        return cls(
            record.first_offset,
            record.end_offset,
            RecordState(record.state),
            record.delivery_count,
            record.member_id,
            record.locked_until_ms,
            record.is_rejected,
        )


def overlapping(runs: Sequence[Run], first_offset: int, end_offset: int) -> Iterator[Run]:
    """Yield the parts of ordered runs within [first_offset, end_offset)."""
    index = bisect_right(runs, first_offset, key=lambda run: run.end_offset)
    while index < len(runs) and runs[index].first_offset < end_offset:
        yield runs[index].cut(first_offset, end_offset)
        index += 1


def painted(runs: Sequence[Run], changed: Sequence[Run]) -> list[Run]:
    """Return the runs overlaid with `changed`; both are ordered. Neighbours that differ only in offsets are joined."""
    result: list[Run] = []
    index = 0
    for new in changed:
        while index < len(runs) and runs[index].end_offset <= new.first_offset:
            _append(result, runs[index].cut(_end_of(result), new.first_offset))
            index += 1
        if index < len(runs) and runs[index].first_offset < new.first_offset:
            _append(result, runs[index].cut(_end_of(result), new.first_offset))
        _append(result, new)
        while index < len(runs) and runs[index].end_offset <= new.end_offset:
            index += 1
    for run in runs[index:]:
        _append(result, run.cut(_end_of(result), run.end_offset))
    return result


def _end_of(runs: Sequence[Run]) -> int:
    return runs[-1].end_offset if runs else 0


def _append(runs: list[Run], run: Run) -> None:
    if run.first_offset >= run.end_offset:
        return
    if runs and run.follows(runs[-1]):
        runs[-1] = replace(runs[-1], end_offset=run.end_offset)
    else:
        runs.append(run)


@dataclass(slots=True)
class SharePartition:
    """A group's progress in one partition. Everything before `start_offset` is finished.

    Two fields are derived from the runs: when the first lock ends, or None without locks, and whether records wait for
    the dead-letter queue.
    """

    start_offset: int = NO_OFFSET
    end_offset: int = NO_OFFSET
    runs: list[Run] = field(default_factory=list)
    next_expiry_ms: int | None = None
    has_dead_letters: bool = False

    @property
    def held(self) -> int:
        """The number of offsets in runs, which is bounded."""
        return sum(run.end_offset - run.first_offset for run in self.runs)

    def apply(self, step: SharePartitionStep) -> None:
        changed = [Run.of(record) for record in step.runs]
        runs = changed if step.is_reset else painted(self.runs, changed)
        self.start_offset, self.end_offset = step.start_offset, step.end_offset
        self._keep(list(overlapping(runs, step.start_offset, step.end_offset)))

    def _keep(self, runs: list[Run]) -> None:
        self.runs = runs
        held = (run.locked_until_ms for run in runs if run.state is RecordState.ACQUIRED)
        self.next_expiry_ms = min(held, default=None)
        self.has_dead_letters = any(run.state is RecordState.ARCHIVING for run in runs)

    def hold_back(self, latest_ms: int) -> None:
        """End at `latest_ms` any locks that would end later."""
        self._keep(
            [replace(run, locked_until_ms=min(run.locked_until_ms, latest_ms)) for run in self.runs]
        )

    def step(self, key: PartitionKey) -> SharePartitionStep:
        """Return the whole share partition as one step, for a snapshot."""
        return SharePartitionStep(
            partition=named(key),
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            runs=[run.record() for run in self.runs],
            is_reset=True,
        )


def settled(runs: Sequence[Run], end_offset: int) -> int:
    """Return where a share partition with these runs begins: at the first unfinished record."""
    return next((run.first_offset for run in runs if not run.is_final), end_offset)


@dataclass(slots=True)
class ShareGroup:
    """The durable state of a share group: its members, as in a consumer group, and its share partitions."""

    group: ConsumerGroup
    partitions: dict[PartitionKey, SharePartition] = field(default_factory=dict)
    #: Derived: the number of runs in all share partitions.
    run_count: int = 0

    @property
    def state(self) -> str:
        """The group's state, with Kafka's name."""
        return "Stable" if self.group.members else "Empty"

    def apply(self, steps: Iterable[SharePartitionStep]) -> None:
        for step in steps:
            key = key_of(step.partition)
            before = self.partitions.get(key)
            self.run_count -= len(before.runs) if before is not None else 0
            if step.is_dropped:
                self.partitions.pop(key, None)
                continue
            partition = self.partitions.setdefault(key, SharePartition())
            partition.apply(step)
            self.run_count += len(partition.runs)

    def forget_topics(self, topic_ids: Collection[bytes]) -> bool:
        """Drop the share partitions of topics. Return whether there were any."""
        gone = [key for key in self.partitions if key[0] in topic_ids]
        for key in gone:
            self.run_count -= len(self.partitions.pop(key).runs)
        return bool(gone)

    @property
    def size(self) -> int:
        return SIZE_OF_RUN * (len(self.partitions) + self.run_count)

    def pieces(self) -> Iterator[SharePartitionsStep]:
        """Yield the share partitions as steps for a snapshot; equal states yield equal messages."""
        for key, partition in sorted(self.partitions.items()):
            yield SharePartitionsStep(
                group_id=self.group.group_id, partitions=[partition.step(key)]
            )
