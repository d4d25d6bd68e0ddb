"""ShareRecords: members of share groups acknowledge and acquire records (KIP-932). The module also ends expired locks.

    available --acquire--> acquired --accept--> acknowledged
        ^                     |  |  --reject, gap--> archived
        +--release, time out--+  +--renew--> acquired

A record that has been delivered `share.delivery.count.limit` times is archived instead of becoming available again. If
the group has a dead-letter queue, such records and rejected ones first wait to be written to it
(verbs/dead_letters.py). Available runs are acquired first, then live records after the end offset. Offsets without a
live record, such as aborted ones, are skipped at no cost. Once a merge has removed aborted records, only an agent that
reads the extent can see the hole: it acknowledges the offsets that it acquired in the hole as a gap, and reports where
the hole ends.

A partition's acknowledgements are either all applied or all refused. The journal records of a decision are written
together, so acknowledgements and acquisitions survive the failure of any process.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import (
    AUTO_OFFSET_RESET,
    DEAD_LETTER_TOPIC,
    DELIVERY_COUNT_LIMIT,
    ISOLATION_LEVEL,
    MAX_RECORD_LOCKS,
    RECORD_LOCK_DURATION,
    RENEW_ENABLE,
    duration_ms,
)
from lacuna.controlplane.shared.log.live import live_slices
from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.state.groups.share import (
    NO_OFFSET,
    RecordState,
    Run,
    SharePartition,
    overlapping,
    painted,
    settled,
)
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import GROUPS_PER_TICK
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.v1.share_pb2 import (
    AcknowledgedRange,
    AcquiredRecords,
    RecordsShared,
    SharedPartition,
    SharePartitionRequest,
    SharePartitionsStep,
    SharePartitionStep,
    ShareRecords,
)
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: The approximate maximum number of a group's runs that one step changes when locks end or members leave.
_MOST_RUNS: Final = 10_000
_GAP, _ACCEPT, _RELEASE, _REJECT, _RENEW = range(5)
_NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
_WORDS: Final = ("gap", "accepted", "released", "rejected", "renewed")
_AFTER: Final = {
    _GAP: RecordState.ARCHIVED,
    _ACCEPT: RecordState.ACKNOWLEDGED,
    _RELEASE: RecordState.AVAILABLE,
    _REJECT: RecordState.ARCHIVED,
    _RENEW: RecordState.ACQUIRED,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """The group configs that determine what happens to records."""

    lock_ms: int
    delivery_limit: int
    most_held: int
    is_committed: bool
    may_renew: bool
    reset: str
    has_queue: bool

    @classmethod
    def of(cls, turn: Turn, group_id: str) -> "Terms":
        groups = turn.groups
        own = groups.configs.get(group_id, {})
        return cls(
            lock_ms=groups.number(group_id, RECORD_LOCK_DURATION),
            delivery_limit=groups.number(group_id, DELIVERY_COUNT_LIMIT),
            most_held=groups.number(group_id, MAX_RECORD_LOCKS),
            is_committed=own.get(ISOLATION_LEVEL) == "read_committed",
            may_renew=own.get(RENEW_ENABLE) != "false",
            reset=own.get(AUTO_OFFSET_RESET, "latest"),
            has_queue=bool(own.get(DEAD_LETTER_TOPIC)),
        )

    def released(self, run: Run) -> Run:
        """Return the run after its release: available or, after its last delivery, as `given_up` returns it."""
        if run.delivery_count >= self.delivery_limit:
            return self.given_up(run)
        return replace(run, state=RecordState.AVAILABLE, member_id="", locked_until_ms=0)

    def given_up(self, run: Run, *, is_rejected: bool = False) -> Run:
        """Return the run after the group gives up on it: archived, or waiting for the dead-letter queue."""
        done = replace(run, state=RecordState.ARCHIVED, member_id="", locked_until_ms=0)
        if not self.has_queue:
            return done
        return replace(done, state=RecordState.ARCHIVING, is_rejected=is_rejected)


class Progress:
    """The changes that a decision makes to a share partition; `step` returns them."""

    __slots__ = ("_changed", "base", "counts", "end_offset", "runs", "start_offset")

    def __init__(self, base: SharePartition) -> None:
        self.base = base
        self.start_offset, self.end_offset = base.start_offset, base.end_offset
        self.runs = base.runs
        self._changed: list[Run] = []
        self.counts: Counter[str] = Counter()

    def paint(self, runs: list[Run], what: str = "") -> None:
        """Overlay these ordered runs, and count their offsets as `what`."""
        if what:
            self.counts[what] += sum(run.end_offset - run.first_offset for run in runs)
        if runs:
            self.runs = painted(self.runs, runs)
            self._changed = painted(self._changed, runs)

    def begin_at(self, offset: int) -> None:
        """Drop everything before an offset, which may lie after the end."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self.runs = list(overlapping(self.runs, self.start_offset, self.end_offset))

    def step(self, key: PartitionKey) -> SharePartitionStep | None:
        """Return the changes, or None if there are none. Finished records at the beginning are dropped."""
        self.begin_at(settled(self.runs, self.end_offset))
        offsets = self.start_offset, self.end_offset
        if not self._changed and offsets == (self.base.start_offset, self.base.end_offset):
            return None
        return SharePartitionStep(
            partition=named(key),
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            runs=[
                run.record()
                for run in overlapping(self._changed, self.start_offset, self.end_offset)
            ],
        )


def share_records(turn: Turn, command: ShareRecords) -> Reply:
    """Acknowledge records and acquire others. Each partition succeeds or fails independently."""
    share = turn.groups.shares.get(command.group_id)
    terms = Terms.of(turn, command.group_id)
    answers: list[SharedPartition] = []
    changed: list[tuple[PartitionKey, Progress]] = []
    left = Left(command.max_records, command.max_bytes)
    expiries: list[int] = []
    has_dead_letters = False
    is_member = share is not None and command.member_id in share.group.members
    for asked in command.partitions:
        key = key_of(asked.partition)
        partition = turn.state.partitions.get(key)
        if partition is None:
            answers.append(SharedPartition(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        base = (share.partitions.get(key) if share is not None else None) or SharePartition()
        progress = Progress(base)
        answer = _acknowledge(turn, command, asked, terms, progress)
        if command.releases:
            _release(progress, {command.member_id}, terms)
        elif asked.acquires and is_member:
            _acquire(turn, command.member_id, asked, terms, partition, progress, left, answer)
        changed.append((key, progress))
        for run in progress.runs:
            if run.state is RecordState.ACQUIRED:
                expiries.append(run.locked_until_ms)
            has_dead_letters |= run.state is RecordState.ARCHIVING
        answers.append(answer)
    journal_steps(turn, command.group_id, changed)
    shared = RecordsShared(
        partitions=answers,
        lock_duration_ms=terms.lock_ms,
        has_dead_letters=has_dead_letters or command.group_id in turn.groups.dying,
    )
    if expiries:
        shared.next_expiry_ms = max(min(expiries) - turn.now_ms, 0)
    return Reply(records_shared=shared)


def _acknowledge(
    turn: Turn,
    command: ShareRecords,
    asked: SharePartitionRequest,
    terms: Terms,
    progress: Progress,
) -> SharedPartition:
    """Apply all acknowledgements of a partition, or none if one is refused."""
    answer = SharedPartition()
    changed: list[Run] = []
    counts: Counter[str] = Counter()
    try:
        for acknowledged in asked.acknowledged:
            for kind, run in _acknowledged(turn, command.member_id, acknowledged, terms, progress):
                changed.append(run)
                counts[_WORDS[kind]] += run.end_offset - run.first_offset
    except Refused as refused:
        answer.acknowledge_error_code = refused.code
        answer.acknowledge_error_message = refused.message
    else:
        progress.paint(sorted(changed, key=lambda run: run.first_offset))
        progress.counts += counts
    return answer


def _acknowledged(
    turn: Turn, member_id: str, asked: AcknowledgedRange, terms: Terms, progress: Progress
) -> Iterator[tuple[int, Run]]:
    """Yield the runs that result from an acknowledgement, each with its acknowledgement type. Raises Refused."""
    if asked.last_offset >= progress.end_offset:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        )
    for kind, first, end in _parts(asked, terms):
        reached = first = max(first, progress.start_offset)
        for run in overlapping(progress.runs, first, end):
            if run.first_offset > reached:
                break
            _check_held(run, member_id)
            reached = run.end_offset
            yield kind, _after(run, kind, terms, turn.now_ms)
        if reached < end:
            raise Refused(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED)


def _check_held(run: Run, member_id: str) -> None:
    """Raise Refused unless the member still holds the records; its locks may have ended."""
    if run.state is not RecordState.ACQUIRED:
        raise Refused(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED)
    if run.member_id != member_id:
        raise Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")


def _parts(asked: AcknowledgedRange, terms: Terms) -> Iterator[tuple[int, int, int]]:
    """Yield (type, first offset, end offset) for each run of offsets with the same type. Raises Refused."""
    count = asked.last_offset - asked.first_offset + 1
    types = asked.types
    if len(types) not in (1, count) or not set(types) <= _AFTER.keys():
        raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(types[:100])}")
    if _RENEW in types and not terms.may_renew:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "Renew acknowledgements are not enabled for the group."
        )
    if len(types) == 1:
        yield types[0], asked.first_offset, asked.last_offset + 1
        return
    first = asked.first_offset
    for kind, group in groupby(types):
        end = first + sum(1 for _ in group)
        yield kind, first, end
        first = end


def _after(run: Run, kind: int, terms: Terms, now_ms: int) -> Run:
    if kind == _RENEW:
        return replace(run, locked_until_ms=now_ms + terms.lock_ms)
    if kind == _RELEASE:
        return terms.released(run)
    if kind == _REJECT:
        return terms.given_up(run, is_rejected=True)
    return replace(run, state=_AFTER[kind], member_id="", locked_until_ms=0)


@dataclass(slots=True)
class Left:
    """How many records and bytes a request may still acquire."""

    records: int
    size: int

    @property
    def is_over(self) -> bool:
        return self.records <= 0 or self.size <= 0


def _acquire(
    turn: Turn,
    member_id: str,
    asked: SharePartitionRequest,
    terms: Terms,
    partition: Partition,
    progress: Progress,
    left: Left,
    answer: SharedPartition,
) -> None:
    """Acquire available records, then new ones, within the limits."""
    if progress.start_offset == NO_OFFSET:
        begin = _beginning(turn, asked, terms, partition, answer)
        if begin is None:
            return
        progress.begin_at(begin)
    progress.begin_at(partition.log_start_offset)
    hole_end = min(asked.hole_end, partition.high_watermark)
    progress.end_offset = max(progress.end_offset, hole_end)
    taken: list[Run] = []
    until_ms = turn.now_ms + terms.lock_ms
    offered = iter(()) if left.is_over else _offered(terms, partition, progress)
    for first, end, count in offered:
        size = size_of(partition, first, end)
        last = min(end, first + left.records)
        left.records -= last - first
        left.size -= size * (last - first) // (end - first)
        begin = first
        if taken and taken[-1].end_offset == first and taken[-1].delivery_count == count + 1:
            begin = taken.pop().first_offset
        taken.append(Run(begin, last, RecordState.ACQUIRED, count + 1, member_id, until_ms))
        if left.is_over:
            break
    if taken:
        progress.end_offset = max(progress.end_offset, taken[-1].end_offset)
        progress.paint(taken, "acquired")
    elif not progress.runs and not left.is_over:
        # There are only holes before the bound, which need no acknowledgement.
        progress.begin_at(_bound(terms, partition))
    answer.acquired.extend(
        AcquiredRecords(
            first_offset=run.first_offset,
            last_offset=run.end_offset - 1,
            delivery_count=run.delivery_count,
        )
        for run in taken
    )


def _beginning(
    turn: Turn,
    asked: SharePartitionRequest,
    terms: Terms,
    partition: Partition,
    answer: SharedPartition,
) -> int | None:
    """Return where a new share partition begins, or None if the agent must first look up the offset for a time."""
    if terms.reset == "earliest":
        return partition.log_start_offset
    duration = duration_ms(terms.reset)
    if duration is None:
        return _bound(terms, partition)
    if asked.HasField("start_offset"):
        return min(max(asked.start_offset, partition.log_start_offset), partition.high_watermark)
    answer.begins_at_ms = turn.now_ms - duration
    return None


def _bound(terms: Terms, partition: Partition) -> int:
    return partition.last_stable_offset if terms.is_committed else partition.high_watermark


def _offered(
    terms: Terms, partition: Partition, progress: Progress
) -> Iterator[tuple[int, int, int]]:
    """Yield (first offset, end offset, delivery count) of the available runs, then of new records."""
    for run in progress.runs:
        if run.state is RecordState.AVAILABLE:
            for first, end in live_parts(partition, run.first_offset, run.end_offset):
                yield first, end, run.delivery_count
    room = terms.most_held - sum(run.end_offset - run.first_offset for run in progress.runs)
    for first, end in live_parts(partition, progress.end_offset, _bound(terms, partition)):
        if room <= 0:
            return
        end = min(end, first + room)
        room -= end - first
        yield first, end, 0


def live_parts(
    partition: Partition, first_offset: int, end_offset: int
) -> Iterator[tuple[int, int]]:
    """Yield the parts of [first_offset, end_offset) with live records, one extent at a time."""
    extents = partition.extents
    start = extents.first_ending_after(first_offset)
    stop = extents.first_at_or_after(end_offset)
    for begin, end in live_slices(extents, partition.dead, start, stop):
        for index in range(begin, end):
            first = max(extents.base_offsets[index], first_offset)
            last = min(extents.next_offsets[index], end_offset)
            if first < last:
                yield first, last


def size_of(partition: Partition, first_offset: int, end_offset: int) -> int:
    """Return the approximate size in bytes of these offsets, which lie in one extent."""
    extents = partition.extents
    index = extents.first_ending_after(first_offset)
    count = extents.next_offsets[index] - extents.base_offsets[index]
    return max(extents.sizes[index] * (end_offset - first_offset) // count, 1)


def _release(progress: Progress, member_ids: Collection[str], terms: Terms) -> None:
    """Make all records that these members hold available again."""
    progress.paint(
        [
            terms.released(run)
            for run in progress.runs
            if run.state is RecordState.ACQUIRED and run.member_id in member_ids
        ],
        "given back",
    )


def release_members(turn: Turn, group_id: str, member_ids: Collection[str]) -> None:
    """Make the records held by departed members available again.

    If the group holds more records than one step may examine, the rest become available when their locks end.
    """
    terms = Terms.of(turn, group_id)

    def release(progress: Progress) -> None:
        _release(progress, member_ids, terms)

    _change_locked(turn, group_id, release)


def end_locks(turn: Turn) -> None:
    """Make records with expired locks available again, in at most GROUPS_PER_TICK groups.

    A group with more expired locks than one step may change stays due for the next tick.
    """
    for group_id in turn.groups.locks.due(turn.now_ms, GROUPS_PER_TICK):
        terms = Terms.of(turn, group_id)

        def end(progress: Progress, terms: Terms = terms) -> None:
            progress.paint(
                [
                    terms.released(run)
                    for run in progress.runs
                    if run.state is RecordState.ACQUIRED and run.locked_until_ms <= turn.now_ms
                ],
                "timed out",
            )

        _change_locked(turn, group_id, end, turn.now_ms)


def _change_locked(
    turn: Turn,
    group_id: str,
    change: Callable[[Progress], None],
    until_ms: float = math.inf,
) -> None:
    """Apply `change` to share partitions with a lock that ends by `until_ms`, up to _MOST_RUNS runs, and journal it."""
    share = turn.groups.shares.get(group_id)
    changed = []
    left = _MOST_RUNS
    for key, partition in share.partitions.items() if share is not None else ():
        if partition.next_expiry_ms is None or partition.next_expiry_ms > until_ms:
            continue
        progress = Progress(partition)
        change(progress)
        changed.append((key, progress))
        left -= len(partition.runs)
        if left <= 0:
            break
    journal_steps(turn, group_id, changed)


def journal_steps(
    turn: Turn, group_id: str, changed: Iterable[tuple[PartitionKey, Progress]]
) -> None:
    steps = []
    for key, progress in changed:
        if (step := progress.step(key)) is not None:
            steps.append(step)
        turn.groups.shared.update(progress.counts)
    journal_partitions(turn, group_id, steps)


def journal_partitions(turn: Turn, group_id: str, steps: Sequence[SharePartitionStep]) -> None:
    if steps:
        record = SharePartitionsStep(group_id=group_id, partitions=steps)
        turn.journal_group(GroupRecord(share_partitions_step=record))


def replay_share_partitions_step(state: State, record: SharePartitionsStep, _now_ms: int) -> None:
    state.groups.take_records_step(record)


VERBS: Final = (Verb(share_records),)
REPLAYS: Final = (replay_share_partitions_step,)
