"""Tests that an audit continues behind damage: it reports the wrong bytes and returns the intact parts."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import MemoryStore, open_store
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.crc import crc32c
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.packing import with_crc
from lacuna.logstore.segments import SegmentId, segment_key
from lacuna.logstore.segments.audit import READ_BYTES, AuditedPart, audit_batches, audit_segment
from lacuna.logstore.segments.layout import header_size
from lacuna.logstore.segments.mending import find_wrong_byte, find_wrong_byte_and_crc
from tests.logstore.segments.samples import (
    CLUSTER_ID,
    KEY,
    batch,
    batches,
    check_segment,
    segment,
    slice_of,
    small_segment,
)


def audited(data: bytes | bytearray, key: str = KEY, **options: object) -> list[AuditedPart]:
    store = MemoryStore()
    store.put(key, [data])
    return list(audit_segment(store, key, len(data), **options))  # type: ignore[arg-type]


def damages_of(parts: list[AuditedPart]) -> list[tuple[int, int, str]]:
    return [(each.position, each.size, each.reason) for part in parts for each in part.damages]


def merged_segment() -> bytes:
    """A segment with true offsets, holes within a batch and between batches, compressed."""
    sparse = BatchToWrite(
        base_offset=100,
        records=tuple(
            NewRecord(offset_delta=delta, timestamp=500 - delta, key=b"k", value=b"v" * 30)
            for delta in (1, 4, 9)
        ),
        last_offset_delta=20,
        max_timestamp=600,
        codec=Codec.LZ4,
    ).encode()
    later = batch(3, base_offset=140, codec=Codec.ZSTD)
    _, data = segment(slice_of([sparse, later]), slice_of([later], 1), has_true_offsets=True)
    return data


SOUND = {"as produced": small_segment()[1], "merged": merged_segment()}


@pytest.mark.parametrize("name", SOUND)
def test_of_a_sound_segment_every_batch_is_given(name: str) -> None:
    data = SOUND[name]
    footer = check_segment(KEY, data)
    for read_bytes in (1, 200, 1 << 20):
        parts = audited(data, read_bytes=read_bytes)
        assert damages_of(parts) == []
        assert parts[0].footer == footer
        covered = [(part.position, part.size) for part in parts]
        assert [position for position, _ in covered] == sorted(position for position, _ in covered)
        found = [(at, header.size) for part in parts for at, header in part.batches]
        edge = footer.slices[0].position
        for position, size in found:
            assert position == edge
            edge += size
        assert edge == footer.slices[-1].position + footer.slices[-1].size


def each_damage(data: bytes) -> Iterator[tuple[int, bytearray]]:
    rng = random.Random(1)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= rng.randrange(1, 256)
        yield position, damaged


@pytest.mark.parametrize("read_bytes", [1 << 20, 200])
@pytest.mark.parametrize("name", SOUND)
def test_a_wrong_byte_anywhere_is_told_exactly_and_the_rest_is_still_whole(
    name: str, read_bytes: int
) -> None:
    data = SOUND[name]
    sound = [(at, header.size) for part in audited(data) for at, header in part.batches]
    for position, damaged in each_damage(data):
        parts = audited(damaged, read_bytes=read_bytes)
        damages = damages_of(parts)
        assert [each[:2] for each in damages] == [(position, 1)], (position, damages)
        assert parts[0].footer is not None
        left = [(at, header.size) for part in parts for at, header in part.batches]
        assert left == [(at, size) for at, size in sound if not at <= position < at + size]


@given(
    st.lists(batches, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=5),
    st.booleans(),
)
def test_several_wrong_bytes_all_lie_in_what_is_reported(
    held: list[bytes], changes: list[tuple[int, int]], reads_records: bool
) -> None:
    _, data = segment(slice_of(held))
    damaged = bytearray(data)
    for at, change in changes:
        damaged[at % len(data)] ^= change
    wrong = {at for at in range(len(data)) if damaged[at] != data[at]}
    parts = audited(damaged, reads_records=reads_records)
    ranges = damages_of(parts)
    if parts[0].footer is not None:
        covered = {at for start, size, _ in ranges for at in range(start, start + size)}
        assert wrong <= covered
    elif wrong:
        assert ranges


@pytest.mark.parametrize("name", SOUND)
def test_a_truncated_object_is_found_wherever_it_ends(name: str) -> None:
    data = SOUND[name]
    for size in range(len(data)):
        parts = audited(data[:size])
        assert damages_of(parts), size
        assert all(part.footer is None for part in parts)


def test_an_object_under_another_key_is_found() -> None:
    data = SOUND["as produced"]
    for other in (
        segment_key(CLUSTER_ID, SegmentId(0x1F, 43)),
        segment_key("another", SegmentId(0x1F, 42)),
    ):
        reasons = [reason for *_, reason in damages_of(audited(data, other))]
        assert any("belongs to another segment" in reason for reason in reasons)


def wrong_segments() -> dict[str, tuple[bytes, str]]:
    """Segments that no writer creates. All block checksums are right."""
    good = batch(3)
    bad_crc = bytearray(good)
    bad_crc[-1] ^= 1
    wrong_time = bytearray(good)
    wrong_time[35:43] = (7).to_bytes(8, "big")
    wrong_count = bytearray(good)
    wrong_count[57:61] = (2).to_bytes(4, "big")
    garbage = bytearray(batch(2, codec=Codec.LZ4))
    garbage[70:80] = bytes(10)
    control = bytearray(good)
    control[22] |= 0x20
    return {
        "a batch's checksum": (bytes(bad_crc), "CRC-32C"),
        "its largest timestamp": (bytes(with_crc(wrong_time)), "max_timestamp"),
        "the count of its records": (bytes(with_crc(wrong_count)), "record"),
        "compressed records": (bytes(with_crc(garbage)), "lz4"),
        "a control batch": (bytes(with_crc(control)), "control batch"),
    }


@pytest.mark.parametrize("name", wrong_segments())
def test_what_was_wrong_when_it_was_written_is_found_too(name: str) -> None:
    wrong, reason = wrong_segments()[name]
    first = batch(2)
    _, data = segment(slice_of([first, wrong, batch()]))
    ((position, size, found),) = damages_of(audited(data))
    assert (position, size) == (header_size(CLUSTER_ID) + len(first), len(wrong))
    assert reason in found


def test_without_a_footer_batches_are_checked_by_themselves() -> None:
    held = [batch(2, value=b"x" * 50) for _ in range(3)]
    written, data = segment(slice_of(held))
    damaged = bytearray(data)
    damaged[written.slices[0].batch_positions[1] + 80] ^= 1
    store = MemoryStore()
    store.put(KEY, [damaged])
    found = written.slices[0]
    part = audit_batches(store, KEY, found.position, found.size)
    assert [at for at, _ in part.batches] == [found.batch_positions[0], found.batch_positions[2]]
    (damage,) = part.damages
    assert (damage.position, damage.size) == (found.batch_positions[1], found.batch_sizes[1])


@given(st.binary(min_size=1, max_size=300), st.integers(0, 10**6), st.integers(1, 255))
def test_a_checksum_tells_the_byte_that_is_wrong(data: bytes, at: int, change: int) -> None:
    framed = data + crc32c(data).to_bytes(4, "big")
    assert find_wrong_byte(data, crc32c(data)) is None
    assert find_wrong_byte_and_crc(framed) is None
    damaged = bytearray(framed)
    position = at % len(framed)
    damaged[position] ^= change
    assert find_wrong_byte_and_crc(damaged) == (position, damaged[position], framed[position])


_LARGE = """
import resource, sys
from lacuna.logstore.objects import open_store
from lacuna.logstore.segments.audit import audit_segment
store = open_store(sys.argv[1])
(info,) = [each for each in store.list() if each.key == sys.argv[2]]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
parts = [(len(p.batches), len(p.damages)) for p in audit_segment(store, info.key, info.size)]
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(info.size, (after - before) * 1024, *map(sum, zip(*parts)))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_object(tmp_path: Path) -> None:
    large = batch(200, value=b"v" * 1000)
    count = (256 << 20) // len(large)
    written, _ = segment(slice_of([large] * count))
    url = f"file://{tmp_path}"
    with closing(open_store(url)) as store:
        store.put(KEY, written.parts)
    command = [sys.executable, "-c", _LARGE, url, KEY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    size, grown, batches_found, damages = map(int, done.stdout.split())
    assert size > count * len(large)
    assert grown < 4 * READ_BYTES
    assert (batches_found, damages) == (count, 0)
