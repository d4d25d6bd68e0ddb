"""Compares a copy with its source, record by record, under both isolation levels.

Both sides are read as a consumer reads them. Stretches of equal length are compared using a checksum of their offsets,
keys, values, headers and timestamps, regardless of the batches and codecs in which they are stored; only stretches that
differ are compared record by record. In a copy, a read_uncommitted consumer gets the same records as a read_committed
one, because the copy has no records that the source has aborted or not decided. If aborted records are kept, both sides
are read with the same isolation level.
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
#: The most records of a batch that are in memory as objects.
_GROUP: Final = 4_096
#: The offsets of a stretch.
_STRETCH: Final = 4_096
_DIGEST_BYTES: Final = 16
_LONGEST_SHOWN: Final = 60
#: Of a record: its offset, its timestamp, and how many sizes follow; then each size, -1 for null.
_NUMBERS: Final = Struct(">qqi")
_SIZE: Final = Struct(">i")
#: How many answers in a row may bring nothing although there is more to come.
_MOST_EMPTY: Final = 60


class Span(NamedTuple):
    """The offsets of a partition to compare: [first_offset, end_offset)."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of a partition: the span, the number of records, and the first difference, or "" if there is none.

    For a difference between groups, `place` is None.
    """

    place: Place | None
    span: Span
    records: int
    difference: str

    @property
    def is_partition(self) -> bool:
        """Whether a partition was compared, rather than a group."""
        return self.place is not None


class Verifier:
    """Compares the partitions of mirrors, or of topics that were mirrors."""

    def __init__(self, source: Kafka, target: Kafka, *, keeps_aborted: bool) -> None:
        self._clusters = (source, target)
        self._keeps_aborted = keeps_aborted
        self._readers: dict[tuple[str, int], Broker] = {}

    async def close(self) -> None:
        for broker in self._readers.values():
            await broker.close()

    async def spans(self, places: Sequence[Place]) -> dict[Place, Span]:
        """Return the offsets of each partition that both clusters have, up to the last stable offset."""
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
        """Return a message for each mirror that ends after its source, which means that the source has lost records."""
        source, target = self._clusters
        here = await target.offsets(places, LATEST, READ_UNCOMMITTED)
        # The source last: by now it has all that was copied.
        there = await source.offsets(places, LATEST, READ_UNCOMMITTED)
        return {
            place: f"{show(place)}: the copy ends at offset {end} and the source at {there[place]}: "
            "the source has lost its last offsets"
            for place, end in here.items()
            if place in there and end > there[place]
        }

    async def compare(self, place: Place, span: Span, *, is_compacted: bool) -> Compared:
        """Compare a partition under both isolation levels.

        A source that compacts a topic also removes its aborted records, so aborted records are not compared in that
        topic.
        """
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
    """Reads a partition of one cluster in order of offset."""

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
        """Return the records below an offset that have not been returned before."""
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
        """Decode more of the fetched records. Return whether there were any."""
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
                f"{show(self._place)} ends at offset {self._position} for consumers: try again"
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
                f"{show(self._place)}: the records at offset {self._position} were deleted while they were compared: "
                "compare again"
            )
        if code:
            raise ClusterFailed(f"{show(self._place)} cannot be read: {name_of(code)}")
        return data


def _digest(records: Sequence[Record]) -> bytes:
    """Return a checksum of everything that a consumer sees of the records."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for each in records:
        texts = (each.key, each.value, *(text for header in each.headers for text in header))
        sizes = (-1 if text is None else len(text) for text in texts)
        digest.update(_NUMBERS.pack(each.offset, each.timestamp, len(texts)))
        digest.update(b"".join(map(_SIZE.pack, sizes)))
        digest.update(b"".join(text for text in texts if text))
    return digest.digest()


class Comparison:
    """Compares records of a source and a copy, stretch by stretch, until they differ."""

    def __init__(self) -> None:
        self.records = 0
        self.difference = ""

    def add(self, there: Sequence[Record], here: Sequence[Record]) -> None:
        self.records += len(there)
        if _digest(there) != _digest(here):
            self.difference = self._first_difference(there, here)

    def end(self) -> str:
        """Return the first difference, or "" if there is none."""
        return self.difference

    def _first_difference(self, there: Sequence[Record], here: Sequence[Record]) -> str:
        by_offset = {each.offset: each for each in here}
        for each in there:
            found = by_offset.pop(each.offset, None)
            if found is None:
                return f"offset {each.offset} is in the source and not in the copy"
            if difference := _difference(each, found):
                return difference
        return f"offset {min(by_offset)} is in the copy and not in the source"


class CompactedComparison(Comparison):
    """The same for a compacted topic, which each side compacts at a different time.

    A record may be missing on one side if that side has a later record with its key. A tombstone may be missing.
    """

    def __init__(self) -> None:
        super().__init__()
        #: By side: the newest missing offset of each key that still waits for a later record.
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
                self.difference = f"offset {min(missing.values())} is not in {side}, nor is a later record of its key"
        return self.difference


_THERE: Final = "the source"
_HERE: Final = "the copy"


def _difference(there: Record, here: Record) -> str:
    """Return how two records at one offset differ, or "" if they are equal."""
    for name in ("timestamp", "key", "value", "headers"):
        left, right = getattr(there, name), getattr(here, name)
        if left != right:
            return f"offset {there.offset} has the {name} {_show(left)} in the source and {_show(right)} in the copy"
    return ""


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


async def compare_groups(source: Kafka, target: Kafka, places: Mapping[Place, Span]) -> list[str]:
    """Return the differences between the offsets that groups have committed in these partitions."""
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
                    f"group {group_id}: its committed offset of {show(place)} is {each.offset} in the source, and "
                    f"{shown} here"
                )
    return found


async def compare_mirrors(
    source: Kafka, target: Kafka, selection: Selection, *, keeps_aborted: bool = False
) -> AsyncIterator[Compared]:
    """Compare the selected topics with their source and, after that, the offsets of groups.

    Without a selection by name, the mirrors are compared; a promoted topic must be named. With `keeps_aborted`, a
    read_uncommitted consumer must also find aborted records in the copy.
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
