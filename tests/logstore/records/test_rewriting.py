"""Tests rewriting batches in both forms: recoding, dropping records, and delete horizons (KIP-534)."""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, Record, read_batches
from lacuna.logstore.records.compression import compress, decompress
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    RecordsError,
    TruncatedBatchError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import HEADER_SIZE, Codec
from tests.forms import interpreted
from tests.logstore.records.conftest import REWRITING
from tests.logstore.records.test_batch import as_new
from tests.logstore.records.test_coalesce import plain, records_of, stored_batches
from tests.logstore.records.test_columns import with_horizon_bit
from tests.logstore.records.test_kernel import LOG, edited, edits

NEW_HORIZON = 2_000_000
OLD_HORIZONS = (900_000, 950_000)


@st.composite
def cleaned_batches(draw: st.DrawFn) -> list[bytes]:
    """Draws `stored_batches`, some of which have already been cleaned and have a delete horizon."""
    batches = []
    for data in draw(stored_batches()):
        horizon = draw(st.sampled_from([None, None, *OLD_HORIZONS]))
        if horizon is None:
            batches.append(data)
            continue
        (batch,) = read_batches(data)
        header = batch.header
        again = BatchToWrite(
            records=as_new(batch),
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=horizon,
            max_timestamp=header.max_timestamp,
            timestamp_type=header.timestamp_type,
        )
        batches.append(with_horizon_bit(again.encode()))
    return batches


def horizons_of(batches: list[bytes], otherwise: int) -> dict[int, int]:
    """Return the delete horizon of each tombstone by offset, or `otherwise` where there is none."""
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


@pytest.mark.slow
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
    """Here, max.message.bytes exceeds what readers decompress."""
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


def outcome(call: Callable[[], list[bytes]]) -> object:
    try:
        return call()
    except RecordsError as error:
        return type(error), str(error)
    except ValueError as error:
        if "a control batch" not in str(error):
            raise
        return str(error)


@given(
    changes=edits,
    cut=st.integers(0, 20),
    codec=st.sampled_from([-1, 0, 3]),
    dropped=st.sampled_from([None, array("q", [3, 12, 20])]),
    keeps_horizons=st.booleans(),
)
def test_forms_agree_on_damaged_bytes(
    both_rewritings: tuple[ModuleType, ModuleType],
    changes: list[tuple[int, bytes]],
    cut: int,
    codec: int,
    dropped: array[int] | None,
    keeps_horizons: bool,
) -> None:
    data = bytes(edited(LOG, changes, len(LOG) - cut if cut < 5 else len(LOG)))
    options = {"codec": codec, "keeps_horizons": keeps_horizons, "max_bytes": 700}
    if keeps_horizons:
        options["delete_horizon"] = 10
    interpreted, compiled = (
        (
            outcome(partial(rewrite, module, [data], dropped, **options)),
            outcome(partial(module.coalesce, [data], codec, 700)),
        )
        for module in both_rewritings
    )
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


# The newest record of each key.

SECRET = bytes(range(16))


def _stored(batch: bytes) -> tuple[BatchHeader, list[Record]]:
    (found,) = read_batches(batch)
    return found.header, list(found.records())


@settings(max_examples=25)
@given(cleaned_batches(), st.booleans())
def test_a_table_of_keys_drops_all_but_the_newest(
    rewriting: ModuleType, batches: list[bytes], drops: bool
) -> None:
    table = rewriting.KeyTable(1 << 20, SECRET)
    newest: dict[bytes, int] = {}
    for batch in batches:
        assert table.note(batch, 0, 1 << 60) == -1
        newest.update((bytes(r.key), r.offset) for r in _stored(batch)[1] if r.key is not None)
    now_ms = OLD_HORIZONS[0]
    dropped, tombstones = [], 0
    for batch in batches:
        header, records = _stored(batch)
        is_past = drops and header.has_delete_horizon and header.base_timestamp <= now_ms
        for record in records:
            if record.key is None:
                continue
            is_old = newest[bytes(record.key)] > record.offset
            is_gone = record.value is None and is_past and not is_old
            tombstones += is_gone
            if is_old or is_gone:
                dropped.append(record.offset)
    assert [at for batch in batches for at in table.sweep(batch, now_ms, drops)] == dropped
    assert table.keys == len(newest)
    assert (table.superseded, table.tombstones) == (len(dropped) - tombstones, tombstones)


def test_only_records_of_the_given_offsets_supersede(rewriting: ModuleType) -> None:
    (batch,) = _of_keys(b"aab", 10)
    table = rewriting.KeyTable(1 << 20, SECRET)
    assert table.note(batch, 10, 11) == -1
    assert list(table.sweep(batch, 0, False)) == []
    assert table.note(batch, 11, 13) == -1
    assert list(table.sweep(batch, 0, False)) == [10]


@pytest.mark.slow
def test_a_full_table_names_the_first_record_that_does_not_fit(rewriting: ModuleType) -> None:
    """The table never uses more than its bytes, even while growing, and uses at least two thirds of them."""
    max_bytes = 1 << 20
    table = rewriting.KeyTable(max_bytes, SECRET)
    full_at, sizes = -1, [table.size_bytes]
    for first in itertools.count(0, 500):
        keys = [b"%d" % number for number in range(first, first + 500)]
        (batch,) = _of_keys(keys, first)
        full_at = table.note(batch, 0, 1 << 60)
        if table.size_bytes != sizes[-1]:
            assert sizes[-1] + table.size_bytes <= max_bytes
            sizes.append(table.size_bytes)
        if full_at >= 0:
            break
    assert full_at == table.keys == sizes[-1] // 24 * 3 // 4
    assert sizes[-1] >= max_bytes * 2 // 3
    (again,) = _of_keys([b"1", b"2"], 1_000_000)
    assert table.note(again, 0, 1 << 60) == -1, "a known key takes no more room"
    assert list(table.sweep(_of_keys([b"0", b"1"], 0)[0], 0, False)) == [1]


def test_new_tombstones_and_the_last_horizon_are_reported(rewriting: ModuleType) -> None:
    table = rewriting.KeyTable(1 << 20, SECRET)
    (old,) = _of_keys([b"a"], 5, value=None)
    table.sweep(old, 0, True)
    assert (table.take_new(), table.take_new(), table.last_horizon) == (True, False, 0)
    table.sweep(with_horizon_bit(old), 0, True)
    header, _ = _stored(old)
    assert (table.take_new(), table.last_horizon) == (False, header.base_timestamp)


@pytest.mark.parametrize(
    ("length", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_keys_are_hashed_by_siphash(length: int, digest: str) -> None:
    """The digests are from SipHash's reference implementation. Only the interpreted form exposes them."""
    table = interpreted(REWRITING).KeyTable(1 << 20, SECRET)
    table.note(_of_keys([bytes(range(length))], 0)[0], 0, 1)
    assert (table.low.to_bytes(8, "little") + table.high.to_bytes(8, "little")).hex() == digest


def test_a_control_batch_has_no_keys(rewriting: ModuleType) -> None:
    (batch,) = _of_keys([b"a"], 0)
    control = bytearray(batch)
    control[22] |= 0x20
    with pytest.raises(ValueError, match="a control batch has no keys"):
        rewriting.KeyTable(1 << 20, SECRET).note(bytes(control), 0, 1)
    with pytest.raises(ValueError, match="16"):
        rewriting.KeyTable(1 << 20, b"short")


def _of_keys(
    keys: Iterable[bytes | int], base_offset: int, value: bytes | None = b"v"
) -> list[bytes]:
    """Return a batch with one record for each key."""
    records = tuple(
        NewRecord(
            offset_delta=index,
            timestamp=1_000_000,
            key=bytes([key]) if isinstance(key, int) else key,
            value=value,
        )
        for index, key in enumerate(keys)
    )
    return [BatchToWrite(records=records, base_offset=base_offset).encode()]
