"""Tests rewriting batches in both forms: recoding, dropping records, and delete horizons (KIP-534)."""

from __future__ import annotations

import dataclasses
from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.compression import compress, decompress
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    RecordsError,
    TruncatedBatchError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import HEADER_SIZE, Codec
from tests.logstore.records.test_coalesce import plain, records_of, stored_batches
from tests.logstore.records.test_columns import with_horizon_bit
from tests.logstore.records.test_kernel import LOG, edited, edits

NEW_HORIZON = 2_000_000
OLD_HORIZONS = (900_000, 950_000)


@st.composite
def cleaned_batches(draw: st.DrawFn) -> list[bytes]:
    """Draws `stored_batches`, some of which were cleaned before and have a delete horizon."""
    batches = []
    for data in draw(stored_batches()):
        horizon = draw(st.sampled_from([None, None, *OLD_HORIZONS]))
        if horizon is None:
            batches.append(data)
            continue
        (batch,) = read_batches(data)
        header = batch.header
        again = BatchToWrite(
            records=tuple(
                NewRecord(
                    offset_delta=record.offset - header.base_offset,
                    timestamp=record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    attributes=record.attributes,
                )
                for record in batch.records()
            ),
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=horizon,
            max_timestamp=header.max_timestamp,
            timestamp_type=header.timestamp_type,
        )
        batches.append(with_horizon_bit(again.encode()))
    return batches


def horizons_of(batches: list[bytes], otherwise: int) -> dict[int, int]:
    """Return the delete horizon of each tombstone by its offset, or `otherwise` without one."""
    return {
        record.offset: batch.header.base_timestamp if batch.header.has_delete_horizon else otherwise
        for data in batches
        for batch in read_batches(data)
        for record in batch.records()
        if record.value is None
    }


def rewrite(
    module: ModuleType, batches: list[bytes], dropped: array[int] | None, **options: int | None
) -> list[bytes]:
    rewriter = module.Rewriter(**options)
    done = []
    for data in batches:
        rewriter.add(data, dropped)
        done += rewriter.take()
    rewriter.end_batch()
    done += rewriter.take()
    assert rewriter.take() == []
    return done


@given(
    batches=cleaned_batches(),
    codec=st.sampled_from([-1, *Codec]),
    max_bytes=st.sampled_from([100, 400, 1 << 20]),
    new_horizon=st.sampled_from([-1, NEW_HORIZON]),
    data=st.data(),
)
def test_s19_what_is_not_dropped_stays_as_it_was(
    rewriting: ModuleType,
    batches: list[bytes],
    codec: int,
    max_bytes: int,
    new_horizon: int,
    data: st.DataObject,
) -> None:
    records = records_of(batches)
    offsets = [r.offset for one in batches for b in read_batches(one) for r in b.records()]
    places = sorted({place for offset in offsets for place in (offset, offset + 1)})
    dropped = {place for place in places if data.draw(st.booleans())}
    found = rewrite(
        rewriting,
        batches,
        array("q", sorted(dropped)),
        codec=codec,
        max_bytes=max_bytes,
        keeps_horizons=True,
        delete_horizon=new_horizon,
    )
    kept = [record for record in records if record[0] not in dropped]
    assert records_of(found) == kept
    expected = horizons_of(batches, new_horizon)
    assert horizons_of(found, -1) == {
        offset: horizon for offset, horizon in expected.items() if offset not in dropped
    }
    for one in found:
        (batch,) = read_batches(one)
        assert codec in (-1, batch.header.codec)
        assert not batch.header.is_transactional
        assert batch.header.record_count == 1 or HEADER_SIZE + len(batch.section()) <= max_bytes


def test_a_batch_takes_the_codec_of_its_first_record(rewriting: ModuleType) -> None:
    lz4 = dataclasses.replace(plain(0, 0, size=200), codec=Codec.LZ4).encode()
    zstd = dataclasses.replace(plain(1, 0, size=200), codec=Codec.ZSTD).encode()
    small = rewrite(rewriting, [lz4, zstd], None, max_bytes=300)
    assert [BatchHeader.parse(one).codec for one in small] == [Codec.LZ4, Codec.ZSTD]
    (one,) = rewrite(rewriting, [lz4, zstd], None)
    assert BatchHeader.parse(one).codec is Codec.LZ4


def test_what_is_too_large_to_be_read_again_stays_uncompressed(rewriting: ModuleType) -> None:
    """Here max.message.bytes exceeds what readers decompress."""
    batches = [plain(i, 0, size=size).encode() for i, size in enumerate((3000, 10))]
    rewriter = rewriting.Rewriter(codec=Codec.ZSTD, max_bytes=500, max_decompressed_bytes=1000)
    for data in batches:
        rewriter.add(data)
    rewriter.end_batch()
    written = rewriter.take()
    assert [BatchHeader.parse(data).codec for data in written] == [Codec.NONE, Codec.ZSTD]
    assert records_of(written) == records_of(batches)


def test_nothing_is_left(rewriting: ModuleType) -> None:
    assert rewrite(rewriting, [plain(5, 0, 1).encode()], array("q", [1, 5, 6, 9])) == []


def tombstones(base_offset: int, values: list[bytes | None]) -> BatchToWrite:
    records = tuple(
        NewRecord(offset_delta=i, timestamp=1000 + i, key=b"k%d" % i, value=value)
        for i, value in enumerate(values)
    )
    return BatchToWrite(base_offset=base_offset, records=records)


def test_a_horizon_costs_one_more_batch_not_one_each(rewriting: ModuleType) -> None:
    """Records other than tombstones accept any horizon, and the next batch begins with it."""
    batches = [tombstones(10 * i, [b"v" * 50, None, b"w"]).encode() for i in range(40)]
    found = rewrite(
        rewriting, batches, None, max_bytes=1000, keeps_horizons=True, delete_horizon=NEW_HORIZON
    )
    assert records_of(found) == records_of(batches)
    headers = [BatchHeader.parse(one) for one in found]
    assert [header.has_delete_horizon for header in headers] == [False] + [True] * (len(found) - 1)
    assert {header.base_timestamp for header in headers[1:]} == {NEW_HORIZON}
    assert all(header.record_count > 5 for header in headers[1:-1])


def test_a_horizon_too_far_from_a_timestamp_is_left_out(rewriting: ModuleType) -> None:
    """timestamp - base_timestamp must fit 64 bits, and the record matters more than the horizon."""
    batches = [
        tombstones(0, [None]).encode(),
        dataclasses.replace(
            tombstones(1, []), records=(NewRecord(offset_delta=0, timestamp=-(2**63)),)
        ).encode(),
    ]
    found = rewrite(rewriting, batches, None, keeps_horizons=True, delete_horizon=NEW_HORIZON)
    assert records_of(found) == records_of(batches)
    assert horizons_of(found, -1) == {0: NEW_HORIZON, 1: -1}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_tombstones_are_found(rewriting: ModuleType, codec: Codec) -> None:
    cases: list[tuple[list[bytes | None], bool]] = [
        ([b"v", b""], False),
        ([b"v", None, b""], True),
        ([None], True),
    ]
    for values, expected in cases:
        batch = dataclasses.replace(tombstones(3, values), codec=codec).encode()
        assert rewriting.has_tombstones(batch) is expected
    with pytest.raises(TruncatedBatchError):
        rewriting.has_tombstones(batch[:-1])


LEVELS = [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19), (Codec.ZSTD, 1)]


@pytest.mark.parametrize(("codec", "level"), LEVELS)
def test_a_compression_level(rewriting: ModuleType, codec: Codec, level: int) -> None:
    batches = [plain(2 * i, 0, 1, size=3000 + i).encode() for i in range(20)]
    (found,) = rewrite(rewriting, batches, None, codec=codec, compression_level=level)
    assert records_of([found]) == records_of(batches)
    section = b"".join(b"%d" % (i * i * 7919) for i in range(5000))
    packed = {compress(codec, section, other) for other in (None, level)}
    assert len(packed) == 2
    assert {decompress(codec, one) for one in packed} == {section}


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.NONE, 1), (Codec.SNAPPY, 1), (Codec.GZIP, 10), (Codec.LZ4, 13), (Codec.ZSTD, 0)],
)
def test_a_level_that_the_codec_does_not_have(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"{codec.name.lower()} has .*{level} is not"):
        compress(codec, b"section", level)


def test_a_codec_that_does_not_exist(rewriting: ModuleType) -> None:
    data = plain(0, 0).encode()
    forged = BatchHeader.parse(data)._replace(attributes=6).pack() + data[HEADER_SIZE:]
    for call in (rewriting.Rewriter().add, rewriting.has_tombstones):
        with pytest.raises(UnsupportedCodecError):
            call(forged)


def outcome(module: ModuleType, data: bytes, options: dict[str, int]) -> object:
    try:
        return rewrite(module, [data], array("q", [3, 12, 20]), **options)
    except (RecordsError, ValueError) as error:
        return type(error), str(error)


@given(changes=edits, cut=st.integers(0, 20), codec=st.sampled_from([-1, 0, 3]))
def test_forms_agree_on_damaged_bytes(
    both_rewritings: tuple[ModuleType, ModuleType],
    changes: list[tuple[int, bytes]],
    cut: int,
    codec: int,
) -> None:
    data = bytes(edited(LOG, changes, len(LOG) - cut if cut < 5 else len(LOG)))
    options = {"codec": codec, "keeps_horizons": True, "delete_horizon": 10, "max_bytes": 700}
    interpreted, compiled = (outcome(module, data, options) for module in both_rewritings)
    assert interpreted == compiled


@given(section=st.binary(max_size=100), count=st.integers(0, 5))
def test_any_records_give_an_answer_or_a_typed_error(
    both_rewritings: tuple[ModuleType, ModuleType], section: bytes, count: int
) -> None:
    header = BatchHeader.parse(plain(0, 0, 1).encode())
    header = header._replace(batch_length=HEADER_SIZE - 12 + len(section), record_count=count)
    found = []
    for module in both_rewritings:
        try:
            found.append((module.has_tombstones(header.pack() + section), ""))
        except (InvalidRecordError, CorruptBatchError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]
