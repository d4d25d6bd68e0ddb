"""PlanDeadLetters and BuryRecords: records that share groups give up on reach a dead-letter queue exactly once
(KIP-1191).

    acquired --reject, delivered too often--> archiving --BuryRecords--> archived

An agent requests a plan, reads the records, and sends the letters as a segment of the queue's topic. A single decision
commits the segment and archives the records, so each record reaches the queue exactly once, even if a process is killed
at any point. A second segment with the same records is refused.

Letters are planned only for stable records; records of aborted transactions are archived without letters. As in Kafka,
so are all records of a group that cannot use its queue.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import nsmallest
from typing import Final

from lacuna.controlplane.shared.batches import verdicts_of
from lacuna.controlplane.shared.broker_configs import (
    DEAD_LETTER_CREATION,
    DEAD_LETTER_PREFIX,
    DEAD_LETTER_RULES,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import DEAD_LETTER_COPIES, DEAD_LETTER_TOPIC
from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.shared.topic_configs import DEAD_LETTERS
from lacuna.controlplane.state.groups.share import RecordState, Run, overlapping
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import GROUPS_PER_TICK
from lacuna.controlplane.state.state import TopicState
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import SegmentCommitted
from lacuna.controlplane.v1.share_pb2 import (
    BuryRecords,
    DeadLetters,
    DeadLettersPlanned,
    GroupsDeadLetters,
    PlanDeadLetters,
)
from lacuna.controlplane.verbs.commits import answered, commit_segment
from lacuna.controlplane.verbs.groups.share_records import (
    Progress,
    journal_steps,
    live_parts,
    size_of,
)
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.segments.hot import lease_of

#: How long a group's letters are reserved for the agent that requested a plan.
_HELD_MS: Final = 10_000
#: The reservation of a group whose letters have not been planned: session and time.
_NOT_HELD: Final = None, 0
#: What to count if `slice` is not an index: the letters cannot be written, or the records do not exist.
_OUTCOMES: Final = {-1: "lost", -2: ""}
_MOST_LETTERS: Final = 500
_MOST_BYTES: Final = 8 << 20


class _Unusable(Exception):
    """The group cannot use its dead-letter queue, for the reason in the message."""


def plan_dead_letters(turn: Turn, _command: PlanDeadLetters) -> Reply:
    """Plan letters for some groups, and reserve these groups for this agent for a while."""
    groups = turn.groups
    planned = DeadLettersPlanned()
    plan = _Plan(turn)
    for group_id in _longest_waiting(turn):
        session, until_ms = groups.buriers.get(group_id, _NOT_HELD)
        if session != turn.context.session and until_ms > turn.now_ms:
            continue
        if plan.is_full:
            break
        groups.buriers[group_id] = turn.context.session, turn.now_ms + _HELD_MS
        try:
            name, topic = _queue_of(turn, group_id)
        except _Unusable as reason:
            planned.lost.append(str(reason))
            plan.give_up(group_id)
            continue
        letters = plan.letters(group_id)
        if letters:
            own = groups.configs[group_id]
            planned.groups.append(
                GroupsDeadLetters(
                    queue=name,
                    queue_id=b"" if topic is None else topic.topic_id,
                    partition_count=0 if topic is None else len(topic.partitions),
                    copies=own.get(DEAD_LETTER_COPIES) == "true",
                    letters=letters,
                )
            )
    return Reply(dead_letters_planned=planned)


def _longest_waiting(turn: Turn) -> list[str]:
    """Return some groups with letters to write. Recently planned groups come last, so that none is starved."""
    held = turn.groups.buriers
    return nsmallest(
        GROUPS_PER_TICK, turn.groups.dying, key=lambda each: (held.get(each, _NOT_HELD)[1], each)
    )


def _queue_of(turn: Turn, group_id: str) -> tuple[str, TopicState | None]:
    """Return the name of a group's queue and its topic, which is None if it has yet to be created. Raises _Unusable."""
    name = turn.groups.configs.get(group_id, {}).get(DEAD_LETTER_TOPIC, "")
    if not name:
        raise _Unusable(f"share group {group_id} no longer has a dead-letter queue")
    prefix = _rule(turn, DEAD_LETTER_PREFIX)
    if not name.startswith(prefix):
        raise _Unusable(
            f"share group {group_id}: the name of its dead-letter queue {name} must begin with {prefix} "
            f"({DEAD_LETTER_PREFIX})"
        )
    topic = turn.state.topics_by_name.get(name)
    if topic is None and _rule(turn, DEAD_LETTER_CREATION) != "true":
        raise _Unusable(
            f"share group {group_id}: its dead-letter queue {name} does not exist: create it, or set "
            f"{DEAD_LETTER_CREATION} to true"
        )
    if topic is not None and topic.configs.get(DEAD_LETTERS) != "true":
        raise _Unusable(
            f"share group {group_id}: set {DEAD_LETTERS} to true on topic {name} so that it can be a dead-letter queue"
        )
    if topic is not None and topic.mirror_source:
        raise _Unusable(
            f"share group {group_id}: its dead-letter queue {name} is a mirror: choose a different topic"
        )
    return name, topic


def _rule(turn: Turn, name: str) -> str:
    return turn.state.security.configs.get(name, DEAD_LETTER_RULES[name].default)


class _Plan:
    """Collects letters up to a limit, and archives records that need none."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._left = _MOST_LETTERS
        self._bytes_left = _MOST_BYTES

    @property
    def is_full(self) -> bool:
        return self._left <= 0 or self._bytes_left <= 0

    def give_up(self, group_id: str) -> None:
        """Archive waiting records without letters, one partition at a time, as far as the plan has room."""

        def look(progress: Progress, _key: PartitionKey) -> None:
            self._left -= len(progress.runs)
            _archive(progress, progress.runs, "lost")

        self._change(group_id, look)

    def letters(self, group_id: str) -> list[DeadLetters]:
        """Return letters for a group's records, and archive its aborted records."""
        letters: list[DeadLetters] = []

        def look(progress: Progress, key: PartitionKey) -> None:
            log = self._turn.state.partitions[key]
            waiting = [run for run in progress.runs if run.state is RecordState.ARCHIVING]
            for run in waiting:
                _archive(progress, _holes(log, run), "")
                for first, end in _stable(log, run):
                    if self.is_full:
                        return
                    self._left -= 1
                    self._bytes_left -= size_of(log, first, end)
                    letters.append(
                        DeadLetters(
                            group_id=group_id,
                            partition=named(key),
                            first_offset=first,
                            end_offset=end,
                            delivery_count=run.delivery_count,
                            is_rejected=run.is_rejected,
                        )
                    )

        self._change(group_id, look)
        return letters

    def _change(self, group_id: str, change: Callable[[Progress, PartitionKey], None]) -> None:
        share = self._turn.groups.shares[group_id]
        changed = []
        for key, partition in share.partitions.items():
            if self.is_full:
                break
            if partition.has_dead_letters:
                progress = Progress(partition)
                change(progress, key)
                changed.append((key, progress))
        journal_steps(self._turn, group_id, changed)


def _stable(log: Partition, run: Run) -> Iterator[tuple[int, int]]:
    """Yield the live, stable parts of a run, one extent at a time."""
    yield from live_parts(log, run.first_offset, min(run.end_offset, log.last_stable_offset))


def _holes(log: Partition, run: Run) -> list[Run]:
    """Return the parts of a run that have been aborted or deleted."""
    holes, reached = [], run.first_offset
    for first, end in _stable(log, run):
        if reached < first:
            holes.append(run.cut(reached, first))
        reached = end
    end = min(run.end_offset, log.last_stable_offset)
    return [*holes, run.cut(reached, end)] if reached < end else holes


def _archive(progress: Progress, runs: Iterable[Run], what: str) -> None:
    archived = [
        replace(run, state=RecordState.ARCHIVED)
        for run in runs
        if run.state is RecordState.ARCHIVING
    ]
    progress.paint(archived, what)


def bury_records(turn: Turn, command: BuryRecords) -> Reply:
    """Commit letters and archive their records. Nothing happens if any record is no longer waiting for its letter."""
    has_commit = command.HasField("commit")
    segment = command.commit.segment
    known = answered(turn, segment, lease_of(segment.lease_id)) if has_commit else None
    if known is not None:
        return Reply(segment_committed=known)
    if not all(_waits(turn, each) for each in command.letters):
        return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.PLAN_STALE))
    reply = commit_segment(turn, command.commit) if has_commit else Reply()
    committed = reply.segment_committed
    if committed.error_code:
        return reply
    verdicts = verdicts_of(committed)
    buried: dict[str, dict[PartitionKey, Progress]] = {}
    for letters in command.letters:
        if letters.slice >= 0 and verdicts[letters.slice].error_code:
            continue  # the queue was deleted in the meantime
        key = key_of(letters.partition)
        of_group = buried.setdefault(letters.group_id, {})
        if key not in of_group:
            of_group[key] = Progress(turn.groups.shares[letters.group_id].partitions[key])
        progress = of_group[key]
        runs = [*overlapping(progress.runs, letters.first_offset, letters.end_offset)]
        _archive(progress, runs, _OUTCOMES.get(letters.slice, "buried"))
    for group_id, of_group in buried.items():
        journal_steps(turn, group_id, of_group.items())
        turn.groups.buriers[group_id] = None, turn.now_ms  # any agent may plan its next letters
    return Reply(segment_committed=committed)


def _waits(turn: Turn, letters: DeadLetters) -> bool:
    """Whether all of these records are waiting for their letters."""
    share = turn.groups.shares.get(letters.group_id)
    partition = None if share is None else share.partitions.get(key_of(letters.partition))
    if partition is None:
        return False
    reached = letters.first_offset
    for run in overlapping(partition.runs, letters.first_offset, letters.end_offset):
        if run.first_offset != reached or run.state is not RecordState.ARCHIVING:
            return False
        reached = run.end_offset
    return reached == letters.end_offset


VERBS: Final = (Verb(plan_dead_letters), Verb(bury_records))
