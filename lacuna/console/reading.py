"""Reads records from a topic as a consumer does, and merges its partitions in chronological order.

Each reading is limited in bytes and time, and returns the position in each partition at which the next one continues,
so that no record is missed or repeated.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from lacuna.console import limits
from lacuna.console.site import BadRequest
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.batch import Record, RecordBatch, read_batches
from lacuna.logstore.records.errors import RecordsError
from lacuna.operating.exchanges.topics import FETCH, LIST_OFFSETS
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages import fetch as wire

#: The maximum number of records that exist as objects at the same time.
_GROUP: Final = 1000
#: The minimum share of a Fetch for one partition, in bytes.
_LEAST_BYTES: Final = 16 << 10
#: Each time a stretch of offsets has too few records, the next stretch is longer by this factor.
_LONGER: Final = 16

#: Offsets, keyed by partition.
Positions = Mapping[int, int]


class Wanted(NamedTuple):
    """The text to search for, and where: in keys, values and headers; only in keys; or as an entire key."""

    text: str = ""
    where: str = "anywhere"

    def may_be_in(self, batch: RecordBatch) -> bool:
        """Whether a batch may contain a match, as far as can be told without decoding. Raises RecordsError."""
        return self.text.encode() in batch.section(limits.BATCH_BYTES)

    def is_in(self, record: Record) -> bool:
        needle, key = self.text.encode(), record.key or b""
        if self.where == "key is":
            return needle == key
        if needle in key:
            return True
        if self.where == "key":
            return False
        return needle in (record.value or b"") or any(
            needle in name or needle in (value or b"") for name, value in record.headers
        )


PLACES: Final = ("anywhere", "key", "key is")


class Kept(NamedTuple):
    """A record reduced to the start of its key and value, with their full sizes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    key_size: int
    value_size: int
    headers: Sequence[tuple[bytes, bytes | None]]

    @property
    def kept_bytes(self) -> int:
        """The memory that the kept parts occupy, in bytes."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class Placed(NamedTuple):
    partition: int
    record: Kept


class Found(NamedTuple):
    """Records in chronological order, with the positions before the first and after the last of them in each partition.

    `left_out` contains the partitions that could not be read within the limits.
    """

    records: Sequence[Placed]
    firsts: Positions
    reached: Positions
    examined: int
    left_out: Sequence[int] = ()


def connection_to(agents: Agents) -> KafkaConnection:
    """Return a connection that rejects responses too large for a page."""
    return KafkaConnection(agents, limits.ASK_SECONDS, limits.RESPONSE_BYTES)


class Reader:
    """Reads partitions of a topic over one connection, within limits."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        isolation: int,
        seconds: Callable[[], float],
        *,
        most_bytes: int = limits.SCAN_BYTES,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._isolation = isolation
        self._seconds = seconds
        self._bytes_left = most_bytes
        #: The bytes of all answers so far.
        self.bytes_read = 0
        self._ends = seconds() + limits.SCAN_SECONDS
        #: The number of records that were examined.
        self.examined = 0

    @property
    def is_spent(self) -> bool:
        return self._bytes_left <= 0 or self.is_over()

    def is_over(self) -> bool:
        return self._seconds() > self._ends

    def charge(self, records: Iterable[Kept]) -> None:
        """Count the memory that these records occupy."""
        self._bytes_left -= sum(each.kept_bytes for each in records)

    async def fetch(self, positions: Positions, wait_ms: int = 0) -> dict[int, bytes]:
        """Send one Fetch and return its batches. A partition may be missing even if there is more to read in it.

        If all are missing, all have reached their ends. Raises BootstrapUnavailable, and BadRequest if a partition
        cannot be read at its position.
        """
        share = max(limits.FETCH_BYTES // len(positions), _LEAST_BYTES)
        response = await self._connection.ask(
            *FETCH,
            wire.FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=limits.FETCH_BYTES,
                isolation_level=self._isolation,
                topics=[
                    wire.FetchTopic(
                        self._topic,
                        partitions=[
                            wire.FetchPartition(each, fetch_offset=at, partition_max_bytes=share)
                            for each, at in positions.items()
                        ],
                    )
                ],
            ),
        )
        found: dict[int, bytes] = {}
        for answer in (each for topic in response.responses for each in topic.partitions):
            index = answer.partition_index
            if answer.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                code = ErrorCode(answer.error_code).name
                raise BadRequest(
                    f"the agent returned {code} for {self._topic} [{index}] at offset {positions[index]}"
                )
            if data := b"".join(answer.records or ()):
                found[index] = data
                self._bytes_left -= len(data)
                self.bytes_read += len(data)
        return found

    async def at_time(self, partitions: Iterable[int], timestamp: int) -> dict[int, int]:
        """Return, for each partition, the first offset with this timestamp or a later one, or -1. Raises BadRequest."""
        queries = [wire.ListOffsetsPartition(each, timestamp=timestamp) for each in partitions]
        response = await self._connection.ask(
            *LIST_OFFSETS,
            wire.ListOffsetsRequest(
                -1, self._isolation, [wire.ListOffsetsTopic(self._topic, queries)]
            ),
        )
        offsets: dict[int, int] = {}
        for answer in response.topics[0].partitions:
            if answer.error_code:
                raise BadRequest(
                    f"the agent returned {ErrorCode(answer.error_code).name} for this time"
                )
            offsets[answer.partition_index] = answer.offset
        return offsets


async def read_on(
    reader: Reader, starts: Positions, ends: Positions, count: int, wanted: Wanted | None = None
) -> Found:
    """Return the first `count` records at or after `starts`, or the first `count` that match a search."""
    reached = dict(starts)
    kept: dict[int, list[Kept]] = {each: [] for each in starts}

    def hungry() -> dict[int, int]:
        if wanted and sum(map(len, kept.values())) >= count:
            return {}
        return {
            each: at for each, at in reached.items() if at < ends[each] and len(kept[each]) < count
        }

    while (asked := hungry()) and not reader.is_spent:
        fetched = await reader.fetch(asked)
        if not fetched:
            reached.update({each: ends[each] for each in asked})
        for index, data in fetched.items():
            most = count - len(kept[index])
            cut = limits.KEPT_BYTES // count
            decode = partial(_decoded, data, reached[index], most, wanted, cut, reader.is_over)
            records, examined, reached[index] = await asyncio.to_thread(decode)
            kept[index] += records
            reader.charge(records)
            reader.examined += examined
    streams = [[Placed(each, record) for record in records] for each, records in kept.items()]
    shown = list(islice(heapq.merge(*streams, key=_time), count))
    taken = _count(shown)
    for index, records in kept.items():
        if taken.get(index, 0) < len(records):
            reached[index] = records[taken.get(index, 0)].offset
    left_out = () if wanted else [each for each in hungry() if not kept[each]]
    return Found(shown, starts, reached, reader.examined, left_out)


async def read_back(reader: Reader, log_starts: Positions, ends: Positions, count: int) -> Found:
    """Return the last `count` records before `ends`."""
    lows = dict(ends)
    kept: dict[int, list[Kept]] = {each: [] for each in ends}
    stretch, left_out = count, list[int]()
    while not left_out:
        windows = {
            each: (max(log_starts[each], low - stretch), low)
            for each, low in lows.items()
            if low > log_starts[each] and len(kept[each]) < count
        }
        if not windows:
            break
        read = await _read_windows(reader, windows, count)
        for index, records in read.items():
            kept[index] = records + kept[index]
            lows[index] = windows[index][0]
        left_out = [each for each in windows if each not in read]
        stretch *= _LONGER
    streams = [
        [Placed(each, record) for record in reversed(records)] for each, records in kept.items()
    ]
    shown = list(islice(heapq.merge(*streams, key=_time, reverse=True), count))
    shown.reverse()
    taken = _count(shown)
    firsts = dict(lows)
    for index, records in kept.items():
        number = taken.get(index, 0)
        if number < len(records):
            firsts[index] = records[-number].offset if number else ends[index]
    return Found(shown, firsts, ends, reader.examined, left_out)


async def _read_windows(
    reader: Reader, windows: Mapping[int, tuple[int, int]], count: int
) -> dict[int, list[Kept]]:
    """Return the last `count` records of each range [first, end), except ranges that were not read to their ends."""
    at = {each: first for each, (first, _) in windows.items()}
    kept: dict[int, deque[Kept]] = {each: deque(maxlen=count) for each in windows}
    while (
        asked := {each: first for each, first in at.items() if first < windows[each][1]}
    ) and not reader.is_spent:
        fetched = await reader.fetch(asked)
        if not fetched:
            at.update({each: windows[each][1] for each in asked})
        for index, data in fetched.items():
            decode = partial(_last, data, at[index], windows[index][1], kept[index])
            examined, at[index] = await asyncio.to_thread(decode)
            reader.charge(kept[index])
            reader.examined += examined
    return {each: list(kept[each]) for each in windows if at[each] >= windows[each][1]}


def keep(record: Record, most: int) -> Kept:
    """Reduce a record to at most `most` bytes each of its key and value, and to some of its headers."""
    key, value = record.key, record.value
    return Kept(
        record.offset,
        record.timestamp,
        None if key is None else key[:most],
        None if value is None else value[:most],
        len(key or b""),
        len(value or b""),
        [
            (name[: limits.HEADER_BYTES], None if text is None else text[: limits.HEADER_BYTES])
            for name, text in islice(record.headers, limits.HEADERS)
        ],
    )


def records_of(data: bytes, offset: int) -> Iterator[Record]:
    """Yield the records at or after `offset`, decoding a few at a time. Raises BadRequest if they are unreadable."""
    try:
        for batch in read_batches(data):
            yield from _records(batch, offset)
    except RecordsError as error:
        raise _unreadable(offset, error) from error


def end_of(data: bytes, offset: int) -> int:
    """Return the offset after the last batch, or `offset` if there is none."""
    return max(
        (batch.header.next_offset for batch in read_batches(data, verify=False)), default=offset
    )


def _records(batch: RecordBatch, offset: int) -> Iterator[Record]:
    if not batch.header.is_control:
        for group in batch.record_groups(_GROUP, limits.BATCH_BYTES):
            yield from (each for each in group if each.offset >= offset)


def _unreadable(offset: int, error: RecordsError) -> BadRequest:
    return BadRequest(f"the records after offset {offset} cannot be read: {error}")


def _decoded(
    data: bytes,
    offset: int,
    most: int,
    wanted: Wanted | None,
    cut: int,
    is_over: Callable[[], bool],
) -> tuple[list[Kept], int, int]:
    """Return the records at or after `offset`, how many were examined, and the offset at which to continue."""
    found: list[Kept] = []
    examined = 0
    try:
        for batch in read_batches(data):
            header = batch.header
            if wanted and header.base_offset >= offset and not wanted.may_be_in(batch):
                if examined and is_over():
                    return found, examined, header.base_offset
                examined += 0 if header.is_control else header.record_count
                continue
            for record in _records(batch, offset):
                if len(found) == most or (examined and is_over()):
                    return found, examined, record.offset
                examined += 1
                if wanted is None or wanted.is_in(record):
                    found.append(keep(record, cut))
    except RecordsError as error:
        raise _unreadable(offset, error) from error
    return found, examined, end_of(data, offset)


def _last(data: bytes, offset: int, end: int, kept: deque[Kept]) -> tuple[int, int]:
    """Add the records before `end` to `kept`. Return how many there were, and the offset at which to continue."""
    examined = 0
    for record in records_of(data, offset):
        if record.offset >= end:
            return examined, end
        examined += 1
        kept.append(keep(record, limits.KEPT_BYTES // (kept.maxlen or 1)))
    return examined, end_of(data, offset)


def _time(placed: Placed) -> tuple[int, int]:
    return placed.record.timestamp, placed.partition


def _count(placed: Iterable[Placed]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for each in placed:
        counts[each.partition] = counts.get(each.partition, 0) + 1
    return counts
