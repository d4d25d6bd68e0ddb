"""Compares a copy with its source, record by record, at both isolation levels.

Both sides are read as a consumer reads them. They are compared in stretches of equal length, by a checksum of offsets,
keys, values, headers and timestamps, regardless of the batches and codecs in which the records are stored. Only
stretches that differ are compared record by record. Unless aborted records are kept, the copy lacks everything that the
source has aborted or not decided, so even its read_uncommitted consumers must see what a read_committed consumer sees
at the source. Otherwise, both sides are read at the same isolation level.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from lacuna.base.errors import UserError
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.importing.batches import UncopyableError, arrive
from lacuna.importing.cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Broker,
    ClusterFailed,
    Kafka,
    Place,
    name_of,
    show,
)
from lacuna.importing.cutover import mirrors_of
from lacuna.importing.following import aborted_in, joined
from lacuna.importing.groups import committed_offsets
from lacuna.importing.topics import Selection, topic_configs
from lacuna.logstore.records.batch import Record, RecordBatch, read_batches
from lacuna.wire.messages import fetch as wire

_ISOLATION: Final = {READ_COMMITTED: "read_committed", READ_UNCOMMITTED: "read_uncommitted"}
_BY_NAME_VERSION: Final = 12
_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 8 << 20
#: The maximum number of a batch's records that are in memory as objects.
_GROUP: Final = 4_096
#: The number of offsets in a stretch.
_STRETCH: Final = 4_096
_DIGEST_BYTES: Final = 16
_LONGEST_SHOWN: Final = 60
#: For a record: its offset, its timestamp, and the number of sizes that follow; then each size, -1 for null.
_NUMBERS: Final = Struct(">qqi")
_SIZE: Final = Struct(">i")
#: How many responses in a row may be empty although more records are due.
_MOST_EMPTY: Final = 60


class Span(NamedTuple):
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of comparing a partition, or groups if `place` is None.

    `difference` describes the first difference, and is empty if there is none.
    """

    place: Place | None
    span: Span
    records: int
    difference: str

    @property
    def is_partition(self) -> bool:
        """Whether this is the result for a partition rather than for groups."""
        return self.place is not None


class Verifier:
    """Compares the partitions of mirrors, including promoted ones."""

    def __init__(self, source: Kafka, target: Kafka, *, keeps_aborted: bool) -> None:
        self._clusters = (source, target)
        self._keeps_aborted = keeps_aborted
        self._readers: dict[tuple[str, int], Broker] = {}

    async def close(self) -> None:
        for broker in self._readers.values():
            await broker.close()

    async def spans(self, places: Sequence[Place]) -> dict[Place, Span]:
        """Return the offsets to compare, up to the last stable offset, for each partition that both clusters have."""
        source, target = self._clusters
        starts = [
            await each.offsets(places, EARLIEST, READ_UNCOMMITTED) for each in (source, target)
        ]
        ends = [await each.offsets(places, LATEST, READ_COMMITTED) for each in (target, source)]
        return {
            place: Span(max(each[place] for each in starts), min(each[place] for each in ends))
            for place in places
            if all(place in each for each in (*starts, *ends))
        }

    async def lost(self, places: Sequence[Place]) -> dict[Place, str]:
        """Return a message for each mirror that extends beyond its source, which must have lost records."""
        source, target = self._clusters
        here = await target.offsets(places, LATEST, READ_UNCOMMITTED)
        # The source is queried last, so that it has everything that was copied.
        there = await source.offsets(places, LATEST, READ_UNCOMMITTED)
        return {
            place: f"{show(place)}: the copy ends at offset {end} and the source at {there[place]}: "
            "the source has lost its last offsets"
            for place, end in here.items()
            if place in there and end > there[place]
        }

    async def compare(self, place: Place, span: Span, *, is_compacted: bool) -> Compared:
        """Compare a partition at both isolation levels, except for aborted records in a compacted topic."""
        source, target = self._clusters
        records = 0
        for isolation, level in _ISOLATION.items():
            if is_compacted and self._keeps_aborted and isolation == READ_UNCOMMITTED:
                continue
            of_source = isolation if self._keeps_aborted else READ_COMMITTED
            there = _Side(await self._reader(source, place), place, span, of_source)
            here = _Side(await self._reader(target, place), place, span, isolation)
            comparison = CompactedComparison() if is_compacted else Comparison()
            for first in range(span.first_offset, span.end_offset, _STRETCH):
                end = min(first + _STRETCH, span.end_offset)
                comparison.add(await there.until(end), await here.until(end))
                if comparison.difference:
                    break
            records = comparison.records
            if found := comparison.end():
                return Compared(place, span, records, f"{show(place)} {level}: {found}")
        return Compared(place, span, records, "")

    async def _reader(self, cluster: Kafka, place: Place) -> Broker:
        name, index = place
        topic = (await cluster.topics()).get(name)
        if topic is None or topic.leaders[index] < 0:
            raise ClusterFailed(f"{show(place)} has no leader in {cluster.what}: try again")
        key = (cluster.what, topic.leaders[index])
        if key not in self._readers:
            self._readers[key] = await cluster.connect(key[1])
        return self._readers[key]


class _Side:
    def __init__(self, broker: Broker, place: Place, span: Span, isolation: int) -> None:
        self._broker = broker
        self._place = place
        self._isolation = isolation
        self._position = span.first_offset
        self._first_offset = span.first_offset
        self._empty = 0
        self._batches: list[RecordBatch] = []
        self._records: list[Record] = []
        self._groups: Iterator[list[Record]] = iter(())

    async def until(self, end_offset: int) -> list[Record]:
        """Return the records below `end_offset` that no earlier call has returned."""
        taken: list[Record] = []
        while True:
            index = next(
                (at for at, each in enumerate(self._records) if each.offset >= end_offset), None
            )
            if index is not None:
                taken += self._records[:index]
                del self._records[:index]
                return taken
            taken += self._records
            self._records = []
            if not self._next_group() and not await self._fetch(end_offset):
                return taken

    def _next_group(self) -> bool:
        group = next(self._groups, None)
        while group is None and self._batches:
            self._groups = self._batches.pop(0).record_groups(_GROUP)
            group = next(self._groups, None)
        self._records = [each for each in group or () if each.offset >= self._first_offset]
        return group is not None

    async def _fetch(self, end_offset: int) -> bool:
        """Fetch more batches. Return False if everything below `end_offset` has been fetched."""
        if self._position >= end_offset:
            return False
        data = await self._ask()
        try:
            arrived = arrive(joined(data.records or ()), aborted_in(data), self._position)
        except UncopyableError as error:
            raise UserError(
                f"{show(self._place)} cannot be read at offset {error.offset}: {error}"
            ) from error
        self._empty = self._empty + 1 if arrived.end_offset == self._position else 0
        if self._empty > _MOST_EMPTY:
            raise ClusterFailed(
                f"consumers cannot read {show(self._place)} beyond offset {self._position}: try again"
            )
        self._position = arrived.end_offset
        self._batches = [next(read_batches(each.data, verify=False)) for each in arrived.copies]
        return True

    async def _ask(self) -> wire.PartitionData:
        name, index = self._place
        wanted = wire.FetchPartition(
            index, fetch_offset=self._position, partition_max_bytes=_FETCH_BYTES
        )
        request = wire.FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=self._isolation,
            topics=[wire.FetchTopic(name, partitions=[wanted])],
        )
        answer = await self._broker.ask(
            wire.FETCH_REQUEST, wire.FETCH_RESPONSE, _BY_NAME_VERSION, request
        )
        ((data,),) = (topic.partitions for topic in answer.responses)
        code = answer.error_code or data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise UserError(
                f"{show(self._place)}: the records at offset {self._position} were deleted during the "
                "comparison: compare again"
            )
        if code:
            raise ClusterFailed(f"{show(self._place)} cannot be read: {name_of(code)}")
        return data


def _digest(records: Sequence[Record]) -> bytes:
    """Return a checksum of everything in the records that a consumer can see."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for each in records:
        texts = (each.key, each.value, *(text for header in each.headers for text in header))
        sizes = (-1 if text is None else len(text) for text in texts)
        digest.update(_NUMBERS.pack(each.offset, each.timestamp, len(texts)))
        digest.update(b"".join(map(_SIZE.pack, sizes)))
        digest.update(b"".join(text for text in texts if text))
    return digest.digest()


class Comparison:
    """Compares the records of a source and its copy, stretch by stretch, up to the first difference."""

    def __init__(self) -> None:
        self.records = 0
        self.difference = ""

    def add(self, there: Sequence[Record], here: Sequence[Record]) -> None:
        self.records += len(there)
        if _digest(there) != _digest(here):
            self.difference = self._first_difference(there, here)

    def end(self) -> str:
        return self.difference

    def _first_difference(self, there: Sequence[Record], here: Sequence[Record]) -> str:
        by_offset = {each.offset: each for each in here}
        for each in there:
            found = by_offset.pop(each.offset, None)
            if found is None:
                return f"offset {each.offset} is in the source but not in the copy"
            if difference := _difference(each, found):
                return difference
        return f"offset {min(by_offset)} is in the copy but not in the source"


class CompactedComparison(Comparison):
    """Compares a compacted topic with its source, even if the two were compacted at different times.

    A side may lack a record if it has a later record with the same key. Tombstones may be missing.
    """

    def __init__(self) -> None:
        super().__init__()
        #: By side: the newest missing offset of each key for which a later record has not yet been found.
        self._missing: dict[str, dict[bytes | None, int]] = {_THERE: {}, _HERE: {}}

    def add(self, there: Sequence[Record], here: Sequence[Record]) -> None:
        self.records += len(there)
        if not any(self._missing.values()) and _digest(there) == _digest(here):
            return
        left, right = ({each.offset: each for each in side} for side in (there, here))
        for offset in left.keys() & right.keys():
            self.difference = self.difference or _difference(left[offset], right[offset])
        for side, own, others in ((_THERE, left, right), (_HERE, right, left)):
            missing = self._missing[side]
            for offset in sorted(own.keys() | others.keys()):
                if offset in own:
                    missing.pop(own[offset].key, None)
                elif others[offset].value is None:
                    missing.pop(others[offset].key, None)
                else:
                    missing[others[offset].key] = offset

    def end(self) -> str:
        for side, missing in self._missing.items():
            if missing and not self.difference:
                self.difference = f"offset {min(missing.values())} is not in {side}, nor is a later record with its key"
        return self.difference


_THERE: Final = "the source"
_HERE: Final = "the copy"


def _difference(there: Record, here: Record) -> str:
    """Describe how two records with the same offset differ, or return "" if they are equal."""
    for name in ("timestamp", "key", "value", "headers"):
        left, right = getattr(there, name), getattr(here, name)
        if left != right:
            return f"offset {there.offset} has the {name} {_show(left)} in the source and {_show(right)} in the copy"
    return ""


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


async def compare_groups(source: Kafka, target: Kafka, places: Mapping[Place, Span]) -> list[str]:
    """Describe each difference between the offsets that groups have committed in these partitions."""
    there, here = await committed_offsets(source), await committed_offsets(target)
    found = []
    for group_id, offsets in there.items():
        for place, each in offsets.items():
            if place not in places:
                continue
            copy = here.get(group_id, {}).get(place)
            if copy is None or copy.offset != each.offset:
                shown = "none" if copy is None else str(copy.offset)
                found.append(
                    f"group {group_id}: its committed offset for {show(place)} is {each.offset} in the source, and "
                    f"{shown} here"
                )
    return found


async def compare_mirrors(
    source: Kafka, target: Kafka, selection: Selection, *, keeps_aborted: bool = False
) -> AsyncIterator[Compared]:
    """Compare the selected topics, and then groups' committed offsets, with the source.

    If no topics are named, all mirrors are compared; promoted topics must be named. With `keeps_aborted`, the copy must
    also contain the source's aborted records.
    """
    mirrors = await mirrors_of(source, target)
    if selection.wanted:
        here = await target.topics()
        found = {name: each for name, each in (await source.topics()).items() if name in here}
    else:
        found = dict(mirrors)
    places = [
        (name, index)
        for name, topic in found.items()
        if selection.has(name)
        for index in range(len(topic.leaders))
    ]
    verifier = Verifier(source, target, keeps_aborted=keeps_aborted)
    try:
        spans = await verifier.spans(places)
        lost = await verifier.lost([place for place in places if place[0] in mirrors])
        configs = await topic_configs(target, list(found))
        for place, span in spans.items():
            policy = configs[place[0]]["cleanup.policy"].value or ""
            compared = await verifier.compare(place, span, is_compacted="compact" in policy)
            difference = compared.difference or lost.get(place, "")
            yield replace(compared, difference=difference)
    finally:
        await verifier.close()
    for difference in await compare_groups(source, target, spans):
        yield Compared(None, Span(0, 0), 0, difference)
