"""Fuzz targets: functions of arbitrary bytes, with the properties that must always hold.

A target takes bytes and returns nothing. It raises an error if a property is violated. Documented errors (RecordsError,
FrameError, MalformedRequest, CorruptSegmentError) are valid results. Checksums would keep a fuzzer from reaching
everything behind them, so the first byte of an input selects whether they are corrected first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from crc32c import crc32c

from lacuna.agent.api import MalformedRequest
from lacuna.agent.apis import discover
from lacuna.agent.connection import FrameError, FrameReader, RequestFrame
from lacuna.logstore.objects import MemoryStore, ObjectStoreError, StoreMisconfiguredError
from lacuna.logstore.objects.cells import CELL_SIZE, seal
from lacuna.logstore.objects.cluster_keys import parse_keys
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.records.batch import Record, read_batches
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.control import filler, read_control_record
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.layout import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
)
from lacuna.logstore.records.legacy import by_objects, from_batches, to_batch
from lacuna.logstore.records.legacy.reading import read_messages
from lacuna.logstore.records.rewriting import coalesce
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from lacuna.logstore.segments.audit import audit_segment
from tests.doubles.keys import made_up, some_keys
from tests.fuzz.credentials import jwts, sasl
from tests.fuzz.forms import forms
from tests.logstore.records.legacy import naive
from tests.logstore.segments.samples import KEY, small_segment

NOW_MS: Final = 1_700_000_000_000
MAX_FRAME_BYTES: Final = 1 << 20
MAX_DECOMPRESSED_BYTES: Final = 1 << 20
LONGEST_BURST: Final = 4

_REGISTRY: Final = discover()
_VERSIONS: Final = tuple(
    sorted(
        (api.key, version)
        for api in _REGISTRY.apis()
        for version in range(api.min_version, api.max_version + 1)
    )
)
_RULES: Final = ProduceRules(
    max_message_bytes=1 << 20, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
)
_, _SEGMENT = small_segment()
_PAYLOAD: Final = bytes(CELL_SIZE) + b"the last cell"
SEALED: Final = bytes(seal(KEY, [_PAYLOAD], "k1", made_up("k1"), bytes(24)))
"""An encrypted object of two cells."""


def frames(data: bytes) -> None:
    """The frame decoder: the requests and the end are the same however the bytes are fragmented."""
    if not data:
        return
    step = data[0] + 1
    stream = data[1:]
    assert _frames_of([stream]) == _frames_of(
        stream[at : at + step] for at in range(0, len(stream), step)
    )


def _frames_of(pieces: Iterable[bytes]) -> tuple[list[RequestFrame], str]:
    scratch = memoryview(bytearray(MAX_FRAME_BYTES))
    reader = FrameReader(MAX_FRAME_BYTES, scratch, _REGISTRY.takes, _REGISTRY.header_versions)
    found: list[RequestFrame] = []
    try:
        for piece in pieces:
            left = memoryview(piece)
            while len(left):
                room = reader.get_buffer()
                count = min(len(room), len(left))
                room[:count] = left[:count]
                left = left[count:]
                found += reader.received(count)
                assert reader.arrived_bytes <= MAX_FRAME_BYTES
    except FrameError as error:
        # If several requests arrive at once, those before the bad one are not returned.
        return [], str(error)
    return found, ""


def requests(data: bytes) -> None:
    """The body of a request, for any API and version that is served."""
    if len(data) < 2:
        return
    api_key, version = _VERSIONS[int.from_bytes(data[:2], "big") % len(_VERSIONS)]
    api = _REGISTRY.get(api_key, version)
    assert api is not None
    try:
        api.read(memoryview(data[2:]), version)
    except MalformedRequest:
        return


def batches(data: bytes) -> None:
    """A producer's batches: accepted ones are readable by every reader, with equal results (S11, S19)."""
    given = _with_right_checksum(data)
    try:
        summary = validate_produced(given, _RULES, NOW_MS)
    except RecordsError:
        return
    records = _records(given)
    assert len(records) == summary.record_count
    (merged,) = coalesce([given], max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    assert _shown(_records(merged)) == _shown(records)
    assert _columns(given) == [each.offset for each in records]


def stored(data: bytes) -> None:
    """Unvalidated batches: every reader returns records or a typed error."""
    given = _with_right_checksum(data)
    for read in (_records, _coalesced, _columns, _as_message_sets):
        try:
            read(given)
        except RecordsError:
            continue


def _records(data: bytes) -> list[Record]:
    return [
        record for batch in read_batches(data) for record in batch.records(MAX_DECOMPRESSED_BYTES)
    ]


def _coalesced(data: bytes) -> None:
    if not any(batch.header.is_control for batch in read_batches(data)):  # a caller omits them
        coalesce([data], max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)


def _as_message_sets(data: bytes) -> None:
    end = 0
    for batch in read_batches(data):  # offsets are the log's: an agent has patched them in
        if batch.header.base_offset < end:
            return
        end = batch.header.next_offset
    for magic in (0, 1):
        converted = from_batches(
            [data],
            magic=magic,
            first_offset=0,
            max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
        )
        assert converted == b"".join(
            part
            for batch in read_batches(data)
            if not batch.header.is_control
            for part in by_objects.message_sets(batch, magic, 0, MAX_DECOMPRESSED_BYTES)
        )


def _columns(data: bytes) -> list[int]:
    """Return the offsets from the columnar reader."""
    builder = ColumnBuilder(
        headers=True, max_records=16, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
    )
    full = list(builder.read(data))
    last = builder.take()
    columns = [*full, last] if last is not None else full
    return [offset for each in columns for offset in each.offsets.tolist()]


def _shown(records: list[Record]) -> list[tuple[object, ...]]:
    return [
        (each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records
    ]


def _with_right_checksum(data: bytes) -> bytes:
    """Return `data` without its first byte. Its lowest bit selects whether length and CRC-32C are corrected."""
    if not data or not data[0] & 1 or len(data) <= HEADER_SIZE:
        return data[1:]
    mended = bytearray(data[1:])
    mended[BATCH_LENGTH_AT:LOG_OVERHEAD] = (len(mended) - LOG_OVERHEAD).to_bytes(4, "big")
    mended[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(mended)[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(mended)


def message_sets(data: bytes) -> None:
    """An old producer's message sets (S22 to S24): accepted ones become a valid batch and convert back unchanged."""
    if not data:
        return
    # The first byte selects whether the CRC-32s of entries are corrected.
    given = naive.with_right_crcs(data[1:]) if data[0] & 1 else data[1:]
    try:
        batch = to_batch(given, max_bytes=MAX_DECOMPRESSED_BYTES)
    except RecordsError:
        return
    # Messages outside wrappers are in addition to what wrappers may decompress to.
    rules = replace(_RULES, max_decompressed_bytes=2 * MAX_DECOMPRESSED_BYTES)
    summary = validate_produced(batch, rules, NOW_MS)
    assert batch == by_objects.to_batch(given, MAX_DECOMPRESSED_BYTES)
    messages = list(read_messages(given, max_bytes=MAX_DECOMPRESSED_BYTES))
    assert len(messages) == summary.record_count
    returned = from_batches([batch], magic=1, first_offset=0)
    again = read_messages(returned, max_bytes=8 * MAX_DECOMPRESSED_BYTES)
    assert [(each.key, each.value) for each in again] == [
        (each.key, each.value) for each in messages
    ]


def control(data: bytes) -> None:
    """Control records (S25) with keys and values of any length, and a filler between any two offsets (S17)."""
    if not data:
        return
    size = data[0]
    key, value = data[1 : 1 + size], data[1 + size :]
    for each in (key, None):
        for content in (value, None):
            try:
                found = read_control_record(Record(0, 0, each, content, (), 0))
            except RecordsError:
                continue
            assert found.version >= 0
            assert (found.marker is None) == (found.type_number not in (0, 1))
    asked, length = int.from_bytes(data[:6], "big"), int.from_bytes(data[6:12], "big") + 1
    (batch,) = read_batches(filler(asked, asked + length))
    assert batch.header.next_offset == asked + length
    (record,) = batch.records()
    assert record.offset == asked + length - 1
    assert read_control_record(record).type_number == 1


def segments(data: bytes) -> None:
    """An object of arbitrary bytes, and a valid one with a few adjacent bytes changed, which is always detected."""
    if not data:
        return
    if data[0] & 1:
        _damages(data[1:])
        return
    at = int.from_bytes(data[1:4], "big") % len(_SEGMENT)
    burst = data[4 : 4 + LONGEST_BURST][: len(_SEGMENT) - at]
    changed = _SEGMENT[:at] + burst + _SEGMENT[at + len(burst) :]
    assert bool(_damages(changed)) == (changed != _SEGMENT)


def _damages(content: bytes) -> int:
    store = MemoryStore(lambda: NOW_MS)
    store.put(KEY, [content])
    parts = audit_segment(store, KEY, len(content))
    return sum(len(part.damages) for part in parts)


def cells(data: bytes) -> None:
    """An encrypted object of arbitrary bytes, and a valid one that is changed or truncated, which is always
    detected.
    """
    if len(data) < 4:
        return
    at = int.from_bytes(data[1:4], "big") % len(SEALED)
    if data[0] & 1:
        stored = data[4:]
    elif data[0] & 2:
        stored = SEALED[:at]
    else:
        burst = data[4 : 4 + LONGEST_BURST][: len(SEALED) - at]
        stored = SEALED[:at] + burst + SEALED[at + len(burst) :]
    store = EncryptedStore(MemoryStore(lambda: NOW_MS), some_keys())
    store.inner.put(KEY, [stored])
    for position, size in ((0, len(_PAYLOAD)), (CELL_SIZE - 3, 6), (CELL_SIZE, len(_PAYLOAD))):
        try:
            found = store.get_up_to(KEY, position, size)
        except ObjectStoreError:
            continue
        assert found == _PAYLOAD[position : position + size]
    try:
        assert store.get_all(KEY) == _PAYLOAD
    except ObjectStoreError:
        assert stored != SEALED


def cluster_keys(data: bytes) -> None:
    """A key file: an accepted one contains a current key of the correct size."""
    try:
        keys = parse_keys(data.decode(errors="replace"), "the file")
    except StoreMisconfiguredError:
        return
    assert len(keys.keys[keys.current]) == 32


@dataclass(frozen=True, slots=True)
class Target:
    """A check of arbitrary bytes. A search ignores inputs of more than `longest` bytes.

    A test searches `runs` inputs, which should take only a few seconds.
    """

    check: Callable[[bytes], None]
    longest: int
    runs: int = 5_000


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        "frames": Target(frames, 2_000),
        "requests": Target(requests, 2_000),
        "batches": Target(batches, 2_000),
        "stored": Target(stored, 2_000),
        "message_sets": Target(message_sets, 2_000),
        "control": Target(control, 200),
        "segments": Target(segments, 2_000),
        "sasl": Target(sasl, 500),
        "jwts": Target(jwts, 1_000),
        "forms": Target(forms, 500, runs=300),
        "cells": Target(cells, 500),
        "cluster_keys": Target(cluster_keys, 500),
    }
)
