"""Tests that both forms of the kernel answer alike for the same bytes, valid or not."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.layout import HEADER_SIZE, Codec, TimestampType
from lacuna.logstore.records.packing import with_crc

Kernels = tuple[ModuleType, ModuleType]


def stored(base_offset: int, codec: Codec, timestamp_type: TimestampType) -> bytes:
    records = tuple(
        NewRecord(
            offset_delta=2 * i,
            timestamp=1000 + 300 * i,
            key=None if i % 2 else b"key",
            value=b"v" * 70 * i,
            headers=((b"h", None),) * (i % 3),
        )
        for i in range(4)
    )
    return BatchToWrite(
        records=records, base_offset=base_offset, codec=codec, timestamp_type=timestamp_type
    ).encode()


LOG = b"".join(
    stored(10 * i, codec, timestamp_type)
    for i, (codec, timestamp_type) in enumerate(
        (codec, timestamp_type)
        for codec in (Codec.NONE, Codec.LZ4, Codec.NONE)
        for timestamp_type in TimestampType
    )
)
SECTION = stored(0, Codec.NONE, TimestampType.CREATE_TIME)[HEADER_SIZE:]

PRODUCED = BatchToWrite(
    records=tuple(
        NewRecord(offset_delta=i, timestamp=1300 + 300 * i, key=b"k", value=b"v" * i)
        for i in range(3)
    ),
    producer_id=4,
    producer_epoch=2,
    base_sequence=7,
    is_transactional=True,
).encode()

edits = st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=9)), max_size=3)


def edited(data: bytes, changes: list[tuple[int, bytes]], length: int) -> bytearray:
    """Return `data` partly overwritten and truncated, as a faulty disk or peer would leave it."""
    changed = bytearray(data)
    for at, replacement in changes:
        at %= len(data)
        changed[at : at + len(replacement)] = replacement[: len(data) - at]
    return changed[:length]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (RecordsError, ValueError) as error:
        return type(error), str(error)


@given(changes=edits, length=st.integers(0, len(LOG)), base_offset=st.integers(-5, 30))
def test_walks_agree(
    both_kernels: Kernels, changes: list[tuple[int, bytes]], length: int, base_offset: int
) -> None:
    for verify in (False, True):
        for walk in ("walk_and_patch", "walk_stored"):
            buffers = [edited(LOG, changes, length) for _ in both_kernels]
            interpreted, compiled = (
                outcome(lambda: getattr(kernel, walk)(buffer, base_offset, verify))  # noqa: B023
                for kernel, buffer in zip(both_kernels, buffers, strict=True)
            )
            assert interpreted == compiled
            assert buffers[0] == buffers[1]


@given(changes=edits, cut=st.integers(0, 20), codec=st.sampled_from([-1, 0, 3]))
def test_coalescing_agrees(
    both_rewritings: Kernels, changes: list[tuple[int, bytes]], cut: int, codec: int
) -> None:
    data = edited(LOG, changes, len(LOG) - cut if cut < 5 else len(LOG))
    interpreted, compiled = (
        outcome(lambda: rewriting.coalesce([data], codec, 700))  # noqa: B023
        for rewriting in both_rewritings
    )
    assert interpreted == compiled


@given(changes=edits, cut=st.integers(0, 20), count=st.integers(0, 5), base=st.integers(-5, 2**63))
def test_records_agree(
    both_kernels: Kernels, changes: list[tuple[int, bytes]], cut: int, count: int, base: int
) -> None:
    section = bytes(edited(SECTION, changes, len(SECTION) - cut if cut < 5 else len(SECTION)))
    base_timestamp = min(base, 2**63 - 1)
    calls: tuple[Callable[[ModuleType], object], ...] = (
        lambda kernel: kernel.validate_records(section, count, base_timestamp, True),
        lambda kernel: kernel.read_records(section, count),
    )
    for call in calls:
        interpreted, compiled = (outcome(lambda: call(kernel)) for kernel in both_kernels)  # noqa: B023
        assert interpreted == compiled


@given(changes=edits, cut=st.integers(0, 20), is_checksum_right=st.booleans(), keys=st.booleans())
def test_summaries_agree(
    both_kernels: Kernels,
    changes: list[tuple[int, bytes]],
    cut: int,
    is_checksum_right: bool,
    keys: bool,
) -> None:
    data = edited(PRODUCED, changes, len(PRODUCED) - cut if cut < 5 else len(PRODUCED))
    if is_checksum_right:
        data = bytearray(with_crc(data))
    interpreted, compiled = (
        outcome(lambda: kernel.summarize(data, len(PRODUCED), keys, 1300, 2000))  # noqa: B023
        for kernel in both_kernels
    )
    assert interpreted == compiled
