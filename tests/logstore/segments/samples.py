"""Segments and batches for tests."""

from collections.abc import Sequence

from hypothesis import strategies as st

from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.segments import (
    CorruptSegmentError,
    SegmentFooter,
    SegmentId,
    SliceInput,
    WrittenSegment,
    segment_key,
    write_segment,
)
from lacuna.logstore.segments.audit import audit_segment

CLUSTER_ID = "Zq3v-x_9"
SEGMENT_ID = SegmentId(0x1F, 42)
KEY = segment_key(CLUSTER_ID, SEGMENT_ID)
TOPIC_ID = bytes(range(16))
OTHER_TOPIC_ID = bytes(range(16, 32))


def batch(
    records: int = 1,
    *,
    value: bytes | None = b"v",
    producer: tuple[int, int] | None = None,
    timestamp: int = 1000,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return one batch. `producer` (id, epoch) makes it transactional."""
    producer_id, producer_epoch = producer or (-1, -1)
    return BatchToWrite(
        records=tuple(
            NewRecord(offset_delta=delta, timestamp=timestamp + delta, key=b"k", value=value)
            for delta in range(records)
        ),
        base_offset=base_offset,
        codec=codec,
        timestamp_type=timestamp_type,
        is_transactional=producer is not None,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1 if producer is None else 0,
    ).encode()


def slice_of(
    batches: Sequence[bytes], partition: int = 0, topic_id: bytes = TOPIC_ID
) -> SliceInput:
    return SliceInput(topic_id, partition, batches)


def segment(*slices: SliceInput, has_true_offsets: bool = False) -> tuple[WrittenSegment, bytes]:
    """Return the writer's result and the whole object."""
    written = write_segment(CLUSTER_ID, SEGMENT_ID, slices, has_true_offsets=has_true_offsets)
    return written, b"".join(written.parts)


def small_segment() -> tuple[WrittenSegment, bytes]:
    """Return three slices, one of which has transactions from two producers among plain batches."""
    return segment(
        slice_of([batch(2, timestamp=5000)]),
        slice_of([batch(), batch(3, producer=(7, 0)), batch(2, producer=(8, 0)), batch(4)], 1),
        slice_of([batch(value=b"last", timestamp=2000)], 0, OTHER_TOPIC_ID),
    )


def check_segment(key: str, data: bytes | bytearray) -> SegmentFooter:
    """Check the footer of an object. Raises CorruptSegmentError with the first finding of an audit."""
    store = MemoryStore()
    store.put(key, [bytes(data)])
    parts = list(audit_segment(store, key, len(data)))
    for damage in (each for part in parts for each in part.damages):
        raise CorruptSegmentError(key, damage.position, damage.size, damage.reason)
    footer = parts[0].footer
    assert footer is not None
    return footer


batches = st.builds(
    batch,
    st.integers(1, 4),
    value=st.binary(max_size=50),
    producer=st.one_of(st.none(), st.tuples(st.integers(1, 3), st.integers(0, 2))),
    timestamp=st.integers(0, 2**40),
    codec=st.sampled_from(Codec),
    timestamp_type=st.sampled_from(TimestampType),
)
