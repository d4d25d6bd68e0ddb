"""Dead letters: for each record that a share group gives up on, writes one to the group's dead-letter queue (KIP-1191).

The control plane plans the letters, and appends them in the decision that archives the records (verbs/dead_letters.py),
so a repeated or late write changes nothing. A letter's headers name the record, the group and the reason, as in Kafka,
and the letter includes the record's key and value if the group's config enables this. All letters for a source
partition go to the same partition of the queue, in the order in which the group gave up on the records.

If a record cannot be read for half a minute, or if its letter would be too large for the queue, its letter has no key
or value.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from lacuna.agent.context import AgentContext
from lacuna.agent.fetch.acquired import read_acquired
from lacuna.agent.fetch.loading import ExtentError
from lacuna.agent.produce.buffer import PendingBatch
from lacuna.agent.produce.check import RulesByTopic, check_batch
from lacuna.agent.produce.flight import commit_command
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.shared.topic_configs import DEAD_LETTERS
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, Topic
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.share_pb2 import (
    BuryRecords,
    DeadLetters,
    GroupsDeadLetters,
    PlanDeadLetters,
)
from lacuna.logstore.records.batch import BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.segments import SliceInput, segment_key, write_segment

log = logging.getLogger("lacuna.housekeeping")

_REJECTED: Final = "Offset rejected by client."
_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
#: The values of `slice` for letters without a slice: the letters cannot be written, or the records do not exist.
_UNWRITABLE, _NO_RECORDS = -1, -2
#: How long reads of damaged objects are repeated, and the maximum number of letters for which this is tracked.
_PATIENCE_SECONDS: Final = 30.0
_MOST_UNREAD: Final = 1_000
#: Kafka's latest version of Produce, whose checks apply to letters.
_VERSION: Final = 13


class _Content(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None


#: The records by offset.
_Contents: TypeAlias = Mapping[int, _Content]
_EMPTY: Final = _Content()


@dataclass(slots=True)
class _Batch:
    """The letters in one batch, or the reason why they could not be put into a batch."""

    letters: DeadLetters
    pending: PendingBatch | None = None


class Burial:
    """Carries out the control plane's dead-letter plans. `executor` runs the writes."""

    def __init__(self, context: AgentContext, executor: Executor) -> None:
        self._context = context
        self._control = context.control
        self._executor = executor
        self._rules = RulesByTopic()
        #: The time of the first failed attempt to read the records for letters.
        self._unread: dict[tuple[str, PartitionKey, int], float] = {}

    async def run_once(self) -> bool:
        """Get a plan and carry it out. Return whether the next plan may contain more letters.

        Raises ControlPlaneUnavailable, CommandRefused, NoLeaseError or ObjectStoreError, in which case the records are
        still waiting for their letters.
        """
        reply = await self._control.call(Command(plan_dead_letters=PlanDeadLetters()))
        planned = reply.dead_letters_planned
        for reason in planned.lost:
            log.error("records were archived without dead letters: %s", reason)
        has_more = bool(planned.lost)  # one plan archives a bounded number of records
        batches: list[_Batch] = []
        for group in planned.groups:
            if group.queue_id:
                batches += await self._batches_of(group)
            elif await self._create(group.queue):
                has_more = True
            else:
                batches += (_without(letters, _UNWRITABLE) for letters in group.letters)
        return await self._bury(batches) if batches else has_more

    async def _batches_of(self, group: GroupsDeadLetters) -> list[_Batch]:
        topic = self._control.cluster.topics_by_id.get(group.queue_id)
        if topic is None:
            topic = (await current_view(self._context)).topics_by_id.get(group.queue_id)
        if topic is None:
            return []  # it has just been deleted
        batches: list[_Batch] = []
        for letters in group.letters:
            contents = await self._read(letters)
            if contents is None:
                continue
            batches += _Writing(self._context, self._rules, topic, group, letters).of(contents)
        return batches

    async def _create(self, queue: str) -> bool:
        """Create a queue for the next plan to use. Return whether that was possible."""
        topic = CreateTopic(
            name=queue,
            partition_count=self._context.settings.num_partitions,
            configs={DEAD_LETTERS: "true", "message.timestamp.type": "CreateTime"},
        )
        reply = await self._control.call(Command(create_topics=CreateTopics(topics=[topic])))
        (created,) = reply.topics_created.topics
        if created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return True
        why = created.error_message or ErrorCode(created.error_code).name
        log.error("the dead-letter queue %s cannot be created: %s", queue, why)
        return False

    async def _read(self, letters: DeadLetters) -> _Contents | None:
        """Return the records, without keys or values if an object is damaged, or None to repeat the read later."""
        place = letters.group_id, key_of(letters.partition), letters.first_offset
        view = self._control.partition(*key_of(letters.partition))
        wanted = range(letters.first_offset, letters.end_offset)
        try:
            read = await read_acquired(
                self._context.fetch, view, [(letters.first_offset, letters.end_offset)]
            )
            contents = {
                record.offset: _Content(record.key, record.value)
                for batch in read_batches(b"".join(read.records))
                for record in batch.records()
                if record.offset in wanted
            }
        except (ExtentError, RecordsError) as error:
            now = asyncio.get_running_loop().time()
            since = self._unread.setdefault(place, now)
            if len(self._unread) > _MOST_UNREAD:
                del self._unread[next(iter(self._unread))]
            if now < since + _PATIENCE_SECONDS:
                return None
            log.error("dead letters are written without keys or values: %s", error)
            contents = dict.fromkeys(wanted, _EMPTY)
        self._unread.pop(place, None)
        return contents

    async def _bury(self, batches: list[_Batch]) -> bool:
        """Write the letters as one segment. Return whether it could be committed."""
        command = await self._written(batches)
        reply = await self._control.call(Command(bury_records=command))
        code = reply.segment_committed.error_code
        if code:
            log.info("dead letters were not committed and will be planned again: error %d", code)
        if code == ErrorCode.LEASE_EXPIRED:
            self._context.lease.report_expired(command.commit.segment.lease_id)
        return not code

    async def _written(self, batches: list[_Batch]) -> BuryRecords:
        """Write the letters as one segment, and return the command that commits it."""
        by_partition: dict[PartitionKey, list[_Batch]] = {}
        for batch in batches:
            if batch.pending is not None:
                by_partition.setdefault(batch.pending.key, []).append(batch)
        for index, some in enumerate(by_partition.values()):
            for batch in some:
                batch.letters.slice = index
        command = BuryRecords(letters=[batch.letters for batch in batches])
        pending = [
            [batch.pending for batch in some if batch.pending is not None]
            for some in by_partition.values()
        ]
        if pending:
            segment_id = self._context.lease.next_segment_id()
            written = write_segment(
                self._context.lease.cluster_id,
                segment_id,
                [SliceInput(*some[0].key, [each.part for each in some]) for some in pending],
                journal_position=self._control.journal_position,
            )
            key = segment_key(self._context.lease.cluster_id, segment_id)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._context.store.put, key, written.parts)
            placed = [
                (batch, position)
                for some, piece in zip(pending, written.slices, strict=True)
                for batch, position in zip(some, piece.batch_positions, strict=True)
            ]
            command.commit.CopyFrom(commit_command(written, placed)[0])
        return command


@dataclass(frozen=True, slots=True)
class _Writing:
    """Builds batches of letters for the records of one extent."""

    context: AgentContext
    rules: RulesByTopic
    topic: Topic
    group: GroupsDeadLetters
    letters: DeadLetters

    def of(self, contents: _Contents) -> Iterator[_Batch]:
        """Yield the letters in one batch, or in several if one would be too large."""
        first, end = self.letters.first_offset, self.letters.end_offset
        copied = contents if self.group.copies else dict.fromkeys(contents, _EMPTY)
        yield from self._batches(first, end, copied)

    def _batches(self, first: int, end: int, contents: _Contents) -> Iterator[_Batch]:
        letters = DeadLetters()
        letters.CopyFrom(self.letters)
        letters.first_offset, letters.end_offset = first, end
        offsets = [offset for offset in range(first, end) if offset in contents]
        if not offsets:
            yield _without(letters, _NO_RECORDS)
            return
        try:
            yield _Batch(letters, self._batch(offsets, contents))
        except RecordsError as error:
            if end - first > 1:
                middle = (first + end) // 2
                yield from self._batches(first, middle, contents)
                yield from self._batches(middle, end, contents)
            elif contents[first] != _EMPTY:
                yield from self._batches(first, end, {first: _EMPTY})
            else:
                log.error("the dead letter for offset %d cannot be written: %s", first, error)
                yield _without(letters, _UNWRITABLE)

    def _batch(self, offsets: list[int], contents: _Contents) -> PendingBatch:
        """Return a batch that the queue accepts. Raises RecordsError if that is impossible."""
        now_ms = self.context.clock.now_ms()
        records = tuple(
            NewRecord(
                offset_delta=delta,
                timestamp=now_ms,
                key=contents[offset].key,
                value=contents[offset].value,
                headers=self._headers(offset),
            )
            for delta, offset in enumerate(offsets)
        )
        part = memoryview(BatchToWrite(records=records).encode())
        key = self.group.queue_id, self.letters.partition.partition % self.group.partition_count
        pending = check_batch(part, key, self.rules.of(self.topic), _VERSION, now_ms)
        if pending.recompression is not None:
            pending.part = pending.recompression.apply(pending.part)
        return pending

    def _headers(self, offset: int) -> tuple[tuple[bytes, bytes], ...]:
        letters = self.letters
        topic = self.context.control.cluster.topics_by_id.get(letters.partition.topic_id)
        about = (
            ("topic", "" if topic is None else topic.name),
            ("partition", str(letters.partition.partition)),
            ("offset", str(offset)),
            ("group", letters.group_id),
            ("delivery.count", str(letters.delivery_count)),
            ("message", _REJECTED if letters.is_rejected else _TOO_OFTEN),
        )
        return tuple((f"__dlq.errors.{name}".encode(), value.encode()) for name, value in about)


def _without(letters: DeadLetters, why: int) -> _Batch:
    letters.slice = why
    return _Batch(letters)
