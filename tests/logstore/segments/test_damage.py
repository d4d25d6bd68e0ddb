"""Tests that wrong bytes are detected, named and never served."""

import pickle

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.records.crc import crc32c
from lacuna.logstore.segments import (
    CorruptSegmentError,
    SegmentId,
    open_segment,
    segment_key,
)
from lacuna.logstore.segments.layout import (
    TRAILER_SIZE,
    decode_trailer,
    encode_end,
    header_size,
)
from lacuna.logstore.segments.v1 import segment_pb2
from lacuna.testing.faults import Fault, FaultKind, FaultyStore
from tests.doubles.keys import some_keys
from tests.logstore.segments.samples import (
    CLUSTER_ID,
    KEY,
    SEGMENT_ID,
    batch,
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
    """Return an object with other words in its footer and right checksums."""
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
def test_a_footer_that_cannot_be_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
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
    with pytest.raises(CorruptSegmentError, match="written by a newer Lacuna"):
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
