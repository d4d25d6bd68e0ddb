"""Tests that wrong bytes are detected, reported and never served, and that an audit continues after them."""

import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import lz4.block
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import MemoryStore, open_store
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.packing import with_crc
from lacuna.logstore.segments import CorruptSegmentError, SegmentId, open_segment, segment_key
from lacuna.logstore.segments.audit import READ_BYTES, AuditedPart, audit_batches, audit_segment
from lacuna.logstore.segments.layout import TRAILER_SIZE, decode_trailer, encode_end, header_size
from lacuna.logstore.segments.mending import find_wrong_byte, find_wrong_byte_and_crc
from lacuna.logstore.segments.v1 import segment_pb2
from lacuna.testing.faults import Fault, FaultKind, FaultyStore
from tests.doubles.keys import some_keys
from tests.logstore.segments.samples import (
    CLUSTER_ID,
    KEY,
    SEGMENT_ID,
    batch,
    batches,
    check_segment,
    segment,
    slice_of,
    small_segment,
)

WRITTEN, DATA = small_segment()
FOOTER = check_segment(KEY, DATA)
TRAILER = decode_trailer(KEY, len(DATA), DATA[-TRAILER_SIZE:])


def opened(data: bytes, key: str = KEY) -> object:
    store = MemoryStore()
    store.put(key, [data])
    return open_segment(store, key)


def test_a_truncated_object_is_found() -> None:
    for size in range(0, len(DATA), 7):
        with pytest.raises(CorruptSegmentError):
            check_segment(KEY, DATA[:size])
        with pytest.raises(CorruptSegmentError):
            opened(DATA[:size])


def test_an_object_that_ends_before_its_known_size_is_found() -> None:
    store = FaultyStore(MemoryStore())
    store.put(KEY, [DATA])
    store.fail(Fault("get", FaultKind.TRUNCATED))
    with pytest.raises(CorruptSegmentError, match="truncated"):
        open_segment(store, KEY, len(DATA))


@given(st.integers(1, len(DATA) - TRAILER_SIZE), st.data())
def test_a_part_that_is_missing_within_is_found(size: int, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(DATA) - TRAILER_SIZE - size))
    with pytest.raises(CorruptSegmentError):
        check_segment(KEY, DATA[:start] + DATA[start + size :])


@given(st.binary(max_size=200))
def test_what_is_no_segment_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptSegmentError):
        check_segment(KEY, data)


@pytest.mark.parametrize(
    "key",
    [segment_key("another", SEGMENT_ID), segment_key(CLUSTER_ID, SegmentId(0x1F, 43))],
)
def test_an_object_under_another_ones_key_is_refused(key: str) -> None:
    with pytest.raises(CorruptSegmentError, match="a copy of segment 1f-2a of cluster Zq3v-x_9"):
        opened(DATA, key)


def with_end(footer: bytes, *, has_true_offsets: bool = False, data: bytes = DATA) -> bytes:
    """Return an object with this footer and correct checksums."""
    body = data[: decode_trailer(KEY, len(data), data[-TRAILER_SIZE:]).footer_position]
    return body + b"".join(encode_end(footer, len(body), has_true_offsets=has_true_offsets))


def footer_message(data: bytes = DATA) -> segment_pb2.Footer:
    trailer = decode_trailer(KEY, len(data), data[-TRAILER_SIZE:])
    raw = data[trailer.footer_position : -TRAILER_SIZE]
    return segment_pb2.Footer.FromString(
        lz4.block.decompress(raw, uncompressed_size=trailer.footer_raw_size)
    )


def lose_crc(footer: segment_pb2.Footer) -> None:
    del footer.slices[1].block_crcs[0]


def lose_blocks(footer: segment_pb2.Footer) -> None:
    footer.slices[1].Clear()


def empty_block(footer: segment_pb2.Footer) -> None:
    footer.slices[0].block_sizes[0] = 0


def lose_topic(footer: segment_pb2.Footer) -> None:
    footer.slices[0].topic_id = b"x"


def lose_slice(footer: segment_pb2.Footer) -> None:
    del footer.slices[-1]


def lose_slices(footer: segment_pb2.Footer) -> None:
    del footer.slices[:]


def wrong_cluster(footer: segment_pb2.Footer) -> None:
    footer.cluster_id = "a/b"


def wrong_lease(footer: segment_pb2.Footer) -> None:
    footer.lease_id = -1


def count_too_far(footer: segment_pb2.Footer) -> None:
    footer.slices[0].block_offset_counts[0] = 2**64 - 1


def begin_too_far(footer: segment_pb2.Footer) -> None:
    footer.slices[0].base_offset = 2**63 - 1


def contradict(footer: segment_pb2.Footer) -> None:
    footer.has_true_offsets = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lose_crc, "differ in length"),
        (lose_blocks, "differ in length"),
        (empty_block, "empty block"),
        (lose_topic, "has no topic id"),
        (lose_slice, "do not fill the object"),
        (lose_slices, "do not fill the object"),
        (count_too_far, "exceed 64 bits"),
        (begin_too_far, "exceed 64 bits"),
        (wrong_cluster, "cannot be read"),
        (wrong_lease, "cannot be read"),
        (contradict, "contradict each other"),
    ],
)
def test_a_footer_that_cannot_be_is_refused(
    change: Callable[[segment_pb2.Footer], None], message: str
) -> None:
    footer = footer_message()
    change(footer)
    with pytest.raises(CorruptSegmentError, match=message):
        opened(with_end(footer.SerializeToString()))


def test_a_footer_that_is_no_message_is_refused() -> None:
    with pytest.raises(CorruptSegmentError, match="cannot be read"):
        opened(with_end(b"\xff" * 50))


def test_an_index_that_leads_elsewhere_is_found_by_the_audit() -> None:
    footer = footer_message()
    footer.slices[1].block_offset_counts[0] += 1
    data = with_end(footer.SerializeToString())
    opened(data)
    with pytest.raises(CorruptSegmentError, match="does not end at the offset given in the footer"):
        check_segment(KEY, data)


def test_true_offsets_that_do_not_ascend_are_found_by_the_audit() -> None:
    _, data = segment(slice_of([batch(3), batch(2, base_offset=3)]), has_true_offsets=True)
    changed = bytearray(data)
    second = header_size(CLUSTER_ID) + len(batch(3))
    changed[second + 7] = 2
    footer = footer_message(data)
    footer.slices[0].block_crcs[0] = crc32c(
        changed[header_size(CLUSTER_ID) : second + len(batch(2))]
    )
    changed_data = with_end(footer.SerializeToString(), has_true_offsets=True, data=bytes(changed))
    with pytest.raises(CorruptSegmentError, match="its offsets are out of order") as caught:
        check_segment(KEY, changed_data)
    assert caught.value.position <= second < caught.value.position + caught.value.size


@pytest.mark.parametrize(("at", "value"), [(21, 3), (23, 0x80)])
def test_a_newer_version_is_said_to_be_one(at: int, value: int) -> None:
    trailer = bytearray(DATA[-TRAILER_SIZE:])
    trailer[at] = value
    trailer[-4:] = crc32c(trailer[:-4]).to_bytes(4, "big")
    with pytest.raises(CorruptSegmentError, match="a newer version of Lacuna wrote it"):
        opened(DATA[:-TRAILER_SIZE] + trailer)


def test_a_footer_that_claims_to_be_huge_is_not_unpacked() -> None:
    trailer = bytearray(DATA[-TRAILER_SIZE:])
    trailer[12:16] = b"\xff" * 4
    trailer[-4:] = crc32c(trailer[:-4]).to_bytes(4, "big")
    with pytest.raises(CorruptSegmentError, match="does not fit the object"):
        opened(DATA[:-TRAILER_SIZE] + trailer)


def test_the_header_must_be_that_of_the_footer() -> None:
    _, other = segment(slice_of([batch()]), has_true_offsets=True)
    size = header_size(CLUSTER_ID)
    with pytest.raises(
        CorruptSegmentError, match="header is damaged or belongs to another"
    ) as caught:
        check_segment(KEY, other[:size] + DATA[size:])
    assert caught.value.position + caught.value.size <= size


def test_the_error_survives_the_way_between_processes() -> None:
    error = CorruptSegmentError(KEY, 7, 8, "reason")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.position, copy.size) == (str(error), 7, 8)


def test_the_end_of_an_encrypted_segment_is_damaged_like_any_other() -> None:
    store = EncryptedStore(MemoryStore(), some_keys())
    store.inner.put(KEY, [DATA])
    with pytest.raises(CorruptSegmentError, match="it is not encrypted, which is not allowed"):
        open_segment(store, KEY, len(DATA) - 64)


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


@pytest.mark.slow
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
    """Segments that no writer creates. All block checksums are correct."""
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
