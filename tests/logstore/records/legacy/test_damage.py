"""Tests that any bytes produced as a message set give a valid batch or a RecordsError (S11, S24)."""

from __future__ import annotations

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.legacy import to_batch
from lacuna.logstore.records.legacy.codecs import compress_set
from lacuna.logstore.records.legacy.writing import NewMessage, write_entry, write_message_set
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.logstore.records.legacy import naive

RULES = ProduceRules(max_message_bytes=1 << 20)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
# Where bytes are changed, and by what.
CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=4)
MESSAGES = [NewMessage(n, n, b"key", b"value" * n) for n in range(3)]


def _taken_or_refused(message_set: bytes) -> None:
    try:
        batch = to_batch(message_set, max_bytes=4096, requires_key=False, magic=1)
    except RecordsError:
        return
    assert validate_produced(batch, RULES, now_ms=0).record_count > 0


def _changed(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, difference in changes:
        changed[at % len(changed)] ^= difference
    return bytes(changed)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    _taken_or_refused(data)


@given(st.sampled_from((0, 1)), st.sampled_from(CODECS), CHANGES)
def test_damaged_sets(magic: int, codec: Codec, changes: list[tuple[int, int]]) -> None:
    _taken_or_refused(_changed(write_message_set(MESSAGES, magic=magic, codec=codec), changes))


@given(st.binary(max_size=60))
def test_any_message_behind_a_right_checksum(body: bytes) -> None:
    """Sizes reveal what the CRC-32 cannot."""
    for head in (b"\x00\x00", b"\x01\x00", b"\x00\x01", b"\x01\x02", b"\x01\x03", b""):
        message = head + body
        _taken_or_refused(naive.entry(0, struct.pack(">I", zlib.crc32(message)) + message))


@given(st.sampled_from((0, 1)), st.sampled_from(CODECS[1:]), CHANGES, st.booleans())
def test_damage_behind_a_wrappers_right_checksum(
    magic: int, codec: Codec, changes: list[tuple[int, int]], compressed: bool
) -> None:
    """The damage is in the inner set or in the compressed bytes, including their declared lengths."""
    inner = write_message_set(MESSAGES, magic=magic)
    if compressed:
        value = _changed(compress_set(codec, inner, magic), changes)
    else:
        value = compress_set(codec, _changed(inner, changes), magic)
    _taken_or_refused(write_entry(2, magic, codec, 0, None, value))
