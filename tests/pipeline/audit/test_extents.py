"""Tests incorrect extents, and damage to any byte of an object, without a cluster."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

import pytest

from lacuna.controlplane.shared.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.segments import SegmentId, SliceInput, segment_key, write_segment
from lacuna.pipeline.audit import Finding, Kind
from lacuna.pipeline.audit.inventory import UNKNOWN_SIZE
from lacuna.pipeline.audit.matching import PartitionName
from lacuna.pipeline.audit.objects import ObjectTask, TaskResult, check_objects
from lacuna.pipeline.audit.tables import ExtentRow, Outcome, Rows

CLUSTER = "audited"
SEGMENT = SegmentId(3, 9)
KEY = segment_key(CLUSTER, SEGMENT)
TOPIC = bytes(range(16))
NAMES = {0: PartitionName("orders", TOPIC, 0), 1: PartitionName("orders", TOPIC, 1)}


def batch(
    records: int,
    *,
    producer: int = -1,
    time: int = 1000,
    deltas: tuple[int, ...] = (),
    base_offset: int = 0,
) -> bytes:
    return BatchToWrite(
        base_offset=base_offset,
        records=tuple(
            NewRecord(offset_delta=delta, timestamp=time, key=b"key", value=b"value" * 3)
            for delta in deltas or range(records)
        ),
        codec=Codec.LZ4 if records == 3 else Codec.NONE,
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=-1 if producer < 0 else 0,
        is_transactional=producer >= 0,
    ).encode()


@dataclass(frozen=True)
class Extent:
    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int = 1000
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: int = 0
    partition: int = 0
    flags: int = 0
    outcome: Outcome = Outcome.COMMITTED


def rows_of(extents: Iterable[Extent]) -> Rows:
    return Rows.of(
        ExtentRow(SEGMENT.lease_id, SEGMENT.sequence, **asdict(extent)) for extent in extents
    )


@dataclass
class Sample:
    """An object and its correct extents."""

    data: bytes
    extents: list[Extent] = field(default_factory=list)

    def check(self, data: bytes | bytearray | None = None, size: int = UNKNOWN_SIZE) -> TaskResult:
        store = MemoryStore()
        held = self.data if data is None else data
        store.put(KEY, [held])
        rows = rows_of(sorted(self.extents, key=lambda each: each.position))
        segments = [(SEGMENT.lease_id, SEGMENT.sequence, size)]
        return check_objects(store, CLUSTER, ObjectTask(segments, [0, len(rows)], rows, NAMES))


def produced() -> Sample:
    """Partition 0: a plain run and a transaction. Partition 1: an unreferenced plain batch and a referenced one."""
    first = [batch(2), batch(3, time=2000), batch(1, producer=7), batch(4, producer=7)]
    second = [batch(5), batch(2)]
    written = write_segment(
        CLUSTER, SEGMENT, [SliceInput(TOPIC, 0, first), SliceInput(TOPIC, 1, second)]
    )
    (a, b, c, d), (_, f) = (found.batch_positions for found in written.slices)
    sizes = [len(each) for each in first]
    extents = [
        Extent(a, sizes[0] + sizes[1], 100, 105, 2000),
        Extent(c, sizes[2] + sizes[3], 105, 110, 1000, 7, 0, 41, outcome=Outcome.ABORTED),
        Extent(f, len(second[1]), 30, 32, partition=1),
    ]
    assert b == a + sizes[0]
    assert d == c + sizes[2]
    return Sample(b"".join(written.parts), extents)


def merged() -> Sample:
    """True offsets, with holes within a batch, between two batches, and after the last."""
    held = [
        batch(3, deltas=(0, 2, 5), base_offset=50),
        batch(4, base_offset=60),
        batch(1, base_offset=90),
    ]
    written = write_segment(CLUSTER, SEGMENT, [SliceInput(TOPIC, 0, held)], has_true_offsets=True)
    a, _, c = written.slices[0].batch_positions
    merged_flag = {"flags": FLAG_TRUE_OFFSETS, "outcome": Outcome.COMPACTED}
    extents = [
        Extent(a, c - a, 50, 70, **merged_flag),  # type: ignore[arg-type]
        Extent(c, len(held[2]), 90, 100, **merged_flag),  # type: ignore[arg-type]
    ]
    return Sample(b"".join(written.parts), extents)


SAMPLES = {"produced": produced(), "merged": merged()}


def test_the_truth_has_no_finding() -> None:
    result = SAMPLES["produced"].check()
    assert result.findings.found == []
    assert result.counts[0].records == [5, 5, 0, 0]
    assert result.counts[1].records == [2, 0, 0, 0]
    assert result.unreferenced_bytes > 0  # the batch of five
    assert result.bytes_read == len(SAMPLES["produced"].data)
    result = SAMPLES["merged"].check()
    assert result.findings.found == []
    assert result.counts[0].records == [0, 0, 8, 0]
    assert list(result.sparse) == [0, 50, 70, 13, 0, 90, 100, 9]


def each_damage(data: bytes) -> Iterator[tuple[int, bytearray]]:
    rng = random.Random(2)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= rng.randrange(1, 256)
        yield position, damaged


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_a_wrong_byte_at_every_position_is_located_with_the_offsets_it_hits(name: str) -> None:
    sample = SAMPLES[name]
    for position, damaged in each_damage(sample.data):
        (finding,) = sample.check(damaged).findings.found
        assert (finding.kind, finding.key) == (Kind.DAMAGE, KEY)
        assert (finding.position, finding.size) == (position, 1)
        hit = [
            extent
            for extent in sample.extents
            if extent.position <= position < extent.position + extent.size
        ]
        assert len(finding.hits) == len(hit)
        for extent, told in zip(hit, finding.hits, strict=True):
            assert told.partition == extent.partition
            assert extent.base_offset <= told.first_offset < told.end_offset <= extent.next_offset


@pytest.mark.parametrize(
    ("name", "first_size", "offsets"),
    [
        ("produced", len(batch(2)), (102, 105)),  # the second batch of the first extent
        ("merged", len(batch(3, deltas=(0, 2, 5))), (56, 70)),  # behind the first, to the end
    ],
)
def test_damage_in_one_batch_hits_its_offsets_alone(
    name: str, first_size: int, offsets: tuple[int, int]
) -> None:
    sample = SAMPLES[name]
    damaged = bytearray(sample.data)
    damaged[sample.extents[0].position + first_size + 70] ^= 3
    (finding,) = sample.check(damaged).findings.found
    (hit,) = finding.hits
    assert (hit.first_offset, hit.end_offset) == offsets


def lies() -> dict[str, tuple[str, int, dict[str, object], str]]:
    """Return the changed fields of an extent of a sample, and the expected finding."""
    first, second, _ = SAMPLES["produced"].extents
    sparse = SAMPLES["merged"].extents[0]
    end = len(SAMPLES["produced"].data)
    return {
        "one offset too many": ("produced", 0, {"next_offset": 106}, "offsets"),
        "one offset too few": ("produced", 0, {"base_offset": 101}, "offsets"),
        "another partition": ("produced", 0, {"partition": 1}, "these bytes belong to partition 0"),
        "a byte too far": ("produced", 0, {"position": first.position + 1}, "bounds"),
        "a byte too much": ("produced", 0, {"size": first.size + 1}, "bounds"),
        "half a batch": ("produced", 1, {"size": second.size - 10}, "bounds"),
        "a batch too few": ("produced", 1, {"size": len(batch(1, producer=7))}, "offsets"),
        "another time": ("produced", 0, {"max_timestamp": 1999}, "max_timestamp"),
        "append times": ("produced", 0, {"flags": FLAG_LOG_APPEND_TIME}, "timestamp type"),
        "no transaction": ("produced", 1, {"producer_id": -1}, "transaction"),
        "another producer": ("produced", 1, {"producer_id": 8}, "producer 7"),
        "another epoch": ("produced", 1, {"producer_epoch": 1}, "producer 7"),
        "in the header": ("produced", 0, {"position": 0, "size": 20}, "contains no batch"),
        "in the footer": ("produced", 2, {"position": end - 60, "size": 50}, "contains no batch"),
        "true offsets that are none": ("produced", 0, {"flags": FLAG_TRUE_OFFSETS}, "do not belong"),
        "offsets before its own": ("merged", 0, {"base_offset": 51}, "do not belong"),
        "offsets behind its own": ("merged", 0, {"next_offset": 63}, "do not belong"),
        "a time before its own": ("merged", 0, {"max_timestamp": 999}, "max_timestamp"),
        "an extent in two": ("merged", 1, {"position": sparse.position}, "overlaps the previous extent"),
    }  # fmt: skip


@pytest.mark.parametrize("name", lies())
def test_an_extent_that_lies_is_found(name: str) -> None:
    which, index, changes, reason = lies()[name]
    sample = SAMPLES[which]
    extents = list(sample.extents)
    extents[index] = replace(extents[index], **changes)  # type: ignore[arg-type]
    found = Sample(sample.data, extents).check().findings.found
    assert {finding.kind for finding in found} == {Kind.EXTENT}, found
    assert any(reason in finding.reason for finding in found), found


def test_an_extent_behind_the_end_of_the_object() -> None:
    sample = SAMPLES["produced"]
    beyond = replace(sample.extents[2], size=10_000)
    (finding,) = Sample(sample.data, [*sample.extents[:2], beyond]).check().findings.found
    assert finding.kind is Kind.TRUNCATED
    assert str(finding.hits[0]) == "orders [1] offsets 30-31"


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_of_a_truncated_object_what_is_whole_hits_nothing(name: str) -> None:
    sample = SAMPLES[name]
    for size in range(1, len(sample.data)):
        found = sample.check(sample.data[:size]).findings.found
        told = {hit for finding in found for hit in finding.hits}
        lost = [each for each in sample.extents if each.position + each.size > size]
        assert Kind.DAMAGE in {finding.kind for finding in found}
        assert len(told) >= len({each.partition for each in lost}) if lost else True
        for extent in sample.extents:
            if size >= 36 and extent not in lost:  # shorter is no segment at all: one finding
                assert not any(
                    hit.partition == extent.partition
                    and hit.first_offset < extent.next_offset
                    and extent.base_offset < hit.end_offset
                    for hit in told
                ), (size, found)


@pytest.mark.parametrize("name", SAMPLES)
def test_of_other_bytes_altogether_every_extent_is_hit(name: str) -> None:
    sample = SAMPLES[name]
    for data in (bytes(len(sample.data)), random.Random(4).randbytes(len(sample.data))):
        found = sample.check(data).findings.found
        told = {hit for finding in found for hit in finding.hits}
        assert {finding.kind for finding in found} == {Kind.DAMAGE}
        assert {(hit.partition, hit.first_offset, hit.end_offset) for hit in told} == {
            (each.partition, each.base_offset, each.next_offset) for each in sample.extents
        }


def test_an_object_that_shrank_since_the_listing() -> None:
    sample = SAMPLES["produced"]
    found = sample.check(sample.data[:-100], size=len(sample.data)).findings.found
    assert {finding.kind for finding in found} <= {Kind.TRUNCATED, Kind.DAMAGE}
    assert found


def test_a_missing_object_is_told_only_where_something_refers_to_it() -> None:
    sample = SAMPLES["produced"]
    gone = Sample(sample.data, sample.extents)
    store = MemoryStore()
    for extents, expected in ((gone.extents, [Kind.MISSING]), ([], [])):
        rows = rows_of(extents)
        task = ObjectTask([(1, 1, 100)], [0, len(rows)], rows, NAMES)
        found: list[Finding] = check_objects(store, CLUSTER, task).findings.found
        assert [finding.kind for finding in found] == expected
