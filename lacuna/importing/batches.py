"""Selects the batches of a source that are copied, according to the outcomes of their transactions. Performs no I/O.

The source is read up to its last stable offset, together with its aborted transactions, so the outcome of every batch
is known. Batches are copied byte for byte, except for the producer id, epoch and sequence: these mean nothing in
another cluster, which assigns its own ids (never 0, unlike Kafka). Markers, batches that compaction has emptied, and
aborted records (unless they are kept) become holes.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from lacuna.logstore.objects import Part
from lacuna.logstore.records.batch import BatchHeader, RecordBatch
from lacuna.logstore.records.control import ControlType, read_control_record
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from lacuna.logstore.records.rewriting import Rewriter

#: A producer id and the first offset of one of its aborted transactions.
Aborted = tuple[int, int]


class UncopyableError(Exception):
    """A batch of the source, which begins at `offset`, cannot be copied."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class Copy(NamedTuple):
    """A batch, ready to be written: at its original offsets, without a producer, and with at least one record."""

    data: Part
    base_offset: int
    next_offset: int
    max_timestamp: int
    is_log_append_time: bool
    is_aborted: bool = False


class Arrived(NamedTuple):
    """The batches to copy from a fetch. Every offset of the fetch below `end_offset` has been accounted for.

    `leader_epoch` is the leader epoch of the last batch at the source, or -1 if the fetch returned no batch.
    """

    copies: Sequence[Copy]
    end_offset: int
    leader_epoch: int


def arrive(
    records: Part, aborted: Sequence[Aborted], end_offset: int, *, keeps_aborted: bool = False
) -> Arrived:
    """Return the batches of a fetch that the copy, which ends at `end_offset`, still lacks.

    With `keeps_aborted`, aborted batches are included. An incomplete batch at the end of `records` is ignored, since
    the next fetch returns all of it. Raises UncopyableError.
    """
    outcomes = _Outcomes(aborted)
    copies: list[Copy] = []
    leader_epoch = -1
    for batch in _whole_batches(records):
        header = batch.header
        leader_epoch = header.partition_leader_epoch
        is_aborted = outcomes.aborts(batch)
        if header.next_offset <= end_offset:
            continue
        has_records = header.record_count > 0 and not header.is_control
        if has_records and (keeps_aborted or not is_aborted):
            copies += (copy._replace(is_aborted=is_aborted) for copy in _copies(batch, end_offset))
        end_offset = header.next_offset
    return Arrived(copies, end_offset, leader_epoch)


def _whole_batches(records: Part) -> Iterator[RecordBatch]:
    data = memoryview(records)
    position = 0
    while len(data) - position >= HEADER_SIZE:
        base_offset = int.from_bytes(data[position : position + 8])
        if data[position + MAGIC_AT] != MAGIC:
            raise UncopyableError(
                base_offset,
                f"it has message format {data[position + MAGIC_AT]}, which Kafka used before 0.11: rewrite the topic "
                "with a current client first",
            )
        try:
            header = BatchHeader.parse(data, position)
            end = position + header.size
            if end > len(data):
                return
            batch = RecordBatch(header, data[position:end])
            batch.verify()
        except RecordsError as error:
            raise UncopyableError(base_offset, f"it is damaged: {error}") from error
        yield batch
        position = end


class _Outcomes:
    """Tracks the transactions of a fetch batch by batch, as Kafka's consumer does."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        # Some brokers list aborted transactions out of order.
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()

    def aborts(self, batch: RecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction. Call this once for each batch, in order."""
        header = batch.header
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._aborting.add(self._coming.pop()[0])
        if header.is_control:
            if _ends_in_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborting


def _ends_in_abort(batch: RecordBatch) -> bool:
    if not batch.header.record_count:
        return False
    try:
        found = read_control_record(batch.records()[0])
    except RecordsError as error:
        raise UncopyableError(
            batch.header.base_offset, f"its marker is damaged: {error}"
        ) from error
    return found.type_number == ControlType.ABORT


def _copies(batch: RecordBatch, end_offset: int) -> Iterator[Copy]:
    """Yield the part of a batch that the copy lacks. The source may have joined batches across `end_offset`."""
    header = batch.header
    if header.base_offset < end_offset:
        yield from map(_copy, _cut(batch, end_offset))
    elif header.producer_id == NO_PRODUCER_ID and not header.is_transactional:
        yield _copy(batch.data)
    else:
        yield _copy(_without_producer(batch))


def _copy(data: Part) -> Copy:
    header = BatchHeader.parse(data)
    return Copy(
        data,
        header.base_offset,
        header.next_offset,
        header.max_timestamp,
        header.timestamp_type is TimestampType.LOG_APPEND_TIME,
    )


def _without_producer(batch: RecordBatch) -> bytearray:
    header = batch.header._replace(
        attributes=batch.header.attributes & ~TRANSACTIONAL_BIT,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )
    copy = bytearray(batch.data)
    HEADER.pack_into(copy, 0, *header)
    copy[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(copy)[ATTRIBUTES_AT:]).to_bytes(4)
    return copy


def _cut(batch: RecordBatch, end_offset: int) -> Sequence[bytes]:
    """Return the batch without its records below `end_offset`, or nothing if none are left."""
    rewriter = Rewriter(keeps_horizons=True)
    dropped = array("q", range(batch.header.base_offset, end_offset))
    try:
        rewriter.add(batch.data, dropped)
        rewriter.end_batch()
    except (RecordsError, ValueError) as error:
        raise UncopyableError(batch.header.base_offset, f"it is damaged: {error}") from error
    return rewriter.take()
