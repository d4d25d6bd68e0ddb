"""Tests the checksum of LZ4 frame headers: correct from magic 1, wrong by agreement in magic 0 (KAFKA-3160)."""

from __future__ import annotations

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.legacy.codecs import compress_set, decompress_set
from lacuna.logstore.records.legacy.lz4_header import (
    with_old_checksum,
    with_right_checksum,
    xxh32_short,
)


@given(st.binary(max_size=300), st.booleans(), st.sampled_from((0, 4, 5, 6, 7)))
def test_the_right_checksum_is_that_of_the_lz4_library(
    content: bytes, store_size: bool, block_size: int
) -> None:
    frame = lz4.frame.compress(content, store_size=store_size, block_size=block_size)
    assert with_right_checksum(frame) == frame
    assert with_right_checksum(with_old_checksum(frame)) == frame


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    """XXH32 with seed 0 matches other implementations. Captured frames test the old form."""
    assert xxh32_short(data) == expected


def test_only_short_input_is_hashed() -> None:
    with pytest.raises(ValueError, match="16 bytes are too many"):
        xxh32_short(bytes(16))


def test_each_magic_has_its_own() -> None:
    """The library rejects the frame of magic 0, which differs only in the checksum."""
    old = compress_set(Codec.LZ4, b"inner set", 0)
    right = compress_set(Codec.LZ4, b"inner set", 1)
    assert [at for at in range(len(old)) if old[at] != right[at]] == [6]
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(old)
    assert decompress_set(Codec.LZ4, old, 0, 100) == b"inner set"
    # Clients that never had the error (or mended it) write the right one in magic 0 too.
    assert decompress_set(Codec.LZ4, right, 0, 100) == b"inner set"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x04\x22\x4d\x18\x60\x40",  # ends before the checksum
        b"\x04\x22\x4d\x18\x68\x40\x00\x00",  # ends inside the content size
        b"\x04\x22\x4d\x18\x61\x40\x00\x00\x00\x00\x00\x00",  # with a dictionary
        b"\x02\x21\x4c\x18\x60\x40\x82\x00",  # the legacy frame's magic number
    ],
)
def test_what_is_no_frame_is_left_alone(frame: bytes) -> None:
    assert with_old_checksum(frame) == frame
    assert with_right_checksum(frame) == frame
