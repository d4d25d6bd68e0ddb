"""Tests codecs: framings, limits, and typed errors for any bytes."""

from __future__ import annotations

import gzip
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.logstore.records.compression import codec_of, compress, decompress
from lacuna.logstore.records.errors import (
    CorruptRecordsError,
    DecompressedTooLargeError,
    KafkaErrorName,
    RecordsError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec

COMPRESSING = tuple(codec for codec in Codec if codec is not Codec.NONE)
CODECS = pytest.mark.parametrize("codec", Codec)
TEXT = b"the quick brown fox jumps over the lazy dog; " * 20


@CODECS
@pytest.mark.parametrize("size", [0, 1, 60, 32 * 1024, 32 * 1024 + 1, 300_000])
def test_round_trip_at_exactly_the_bound(codec: Codec, size: int) -> None:
    data = (TEXT * (size // len(TEXT) + 1))[:size]
    assert decompress(codec, compress(codec, data), size) == data


@settings(max_examples=60, deadline=None)
@given(codec=st.sampled_from(Codec), data=st.binary(max_size=2000), repeat=st.integers(1, 50))
def test_round_trip_of_any_bytes(codec: Codec, data: bytes, repeat: int) -> None:
    assert decompress(codec, memoryview(compress(codec, data * repeat))) == data * repeat


@CODECS
def test_one_byte_beyond_the_bound_is_too_large(codec: Codec) -> None:
    with pytest.raises(DecompressedTooLargeError) as caught:
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)
    assert caught.value.kafka_error is KafkaErrorName.MESSAGE_TOO_LARGE
    assert caught.value.limit == len(TEXT) - 1


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(32 * 1024 * 1024))
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, bomb, 1024 * 1024)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_truncation_is_corrupt(codec: Codec) -> None:
    whole = compress(codec, TEXT)
    # A xerial header with no block after it is a complete, empty stream.
    whole_prefixes = {16} if codec is Codec.SNAPPY else set()
    for end in range(len(whole)):
        if end in whole_prefixes:
            continue
        with pytest.raises(CorruptRecordsError) as caught:
            decompress(codec, whole[:end])
        assert caught.value.kafka_error is KafkaErrorName.INVALID_RECORD


def outcome(codec: Codec, data: bytes) -> RecordsError | None:
    """Return the typed error for `data`, or None if it decompresses within the limit."""
    try:
        assert len(decompress(codec, data, 10_000)) <= 10_000
    except RecordsError as error:
        return error
    return None


@given(codec=st.sampled_from(COMPRESSING), data=st.binary(max_size=80))
def test_arbitrary_bytes_give_bytes_or_a_typed_error(codec: Codec, data: bytes) -> None:
    error = outcome(codec, data)
    assert isinstance(error, CorruptRecordsError | DecompressedTooLargeError | None)


@given(codec=st.sampled_from(COMPRESSING), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_gives_bytes_or_a_typed_error(codec: Codec, at: int, byte: int) -> None:
    changed = bytearray(compress(codec, TEXT))
    changed[at % len(changed)] = byte
    error = outcome(codec, bytes(changed))
    assert isinstance(error, CorruptRecordsError | DecompressedTooLargeError | None)


def test_gzip_members_are_concatenated() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


@pytest.mark.slow
def test_many_small_gzip_members_cost_what_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest used to be copied for each member, so 4 MiB of empty members took twelve seconds."""
    copied = 0

    class Member:
        def __init__(self, wbits: int) -> None:
            self._member = new_member(wbits)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

        def decompress(self, data: memoryview, max_length: int) -> bytes:
            nonlocal copied
            part = self._member.decompress(data, max_length)
            copied += len(self._member.unused_data)
            return part

    new_member = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Member)
    members = [b"", b"x", TEXT * 50, b"y" * 3000] * 500
    data = b"".join(gzip.compress(member) for member in members)
    assert decompress(Codec.GZIP, data) == b"".join(members)
    assert copied < 2 * len(data) + 1024 * len(members)


@pytest.mark.parametrize("padding", [bytes(8), b"\x1f", b"more"])
def test_what_is_no_gzip_member_is_passed_over(padding: bytes) -> None:
    """Java's reader does the same. A truncated member is an error."""
    assert decompress(Codec.GZIP, gzip.compress(b"ab") + padding) == b"ab"
    for cut in range(2, 20):
        with pytest.raises(CorruptRecordsError):
            decompress(Codec.GZIP, gzip.compress(b"ab") + gzip.compress(b"cd")[:cut])


def test_xerial_streams_are_concatenated() -> None:
    """snappy-java reads them like this. The second header must be whole."""
    both = compress(Codec.SNAPPY, b"ab") + compress(Codec.SNAPPY, b"cd")
    assert decompress(Codec.SNAPPY, both) == b"abcd"
    first = len(compress(Codec.SNAPPY, b"ab"))
    for cut in range(first + 1, first + 16):
        with pytest.raises(CorruptRecordsError):
            decompress(Codec.SNAPPY, both[:cut])


def test_the_bound_counts_all_gzip_members() -> None:
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 5)


def test_raw_snappy_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    framed = compress(Codec.SNAPPY, bytes(40_000))
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (first,) = struct.unpack_from(">i", framed, 16)
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + first]) == 32 * 1024
    (second,) = struct.unpack_from(">i", framed, 20 + first)
    assert 24 + first + second == len(framed)


@pytest.mark.parametrize("size", [0, -1, 10**6])
def test_a_xerial_block_size_that_does_not_fit(size: int) -> None:
    framed = bytearray(compress(Codec.SNAPPY, TEXT))
    framed[16:20] = struct.pack(">i", size)
    with pytest.raises(CorruptRecordsError, match="is not a possible size of the next block"):
        decompress(Codec.SNAPPY, framed)


def test_the_bound_counts_all_xerial_blocks() -> None:
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, bytes(60_000)), 50_000)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    frame_info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not frame_info["block_linked"]
    assert frame_info["content_size"] == 0


def test_linked_lz4_blocks_are_read() -> None:
    linked = lz4.frame.compress(TEXT * 500, block_linked=True)
    assert decompress(Codec.LZ4, linked) == TEXT * 500


# Small frames are read in one call, and those that may exceed the limit step by step.
@pytest.mark.parametrize("max_bytes", [len(TEXT), 2**26])
def test_bytes_behind_an_lz4_frame_are_corrupt(max_bytes: int) -> None:
    with pytest.raises(CorruptRecordsError, match="follow"):
        decompress(Codec.LZ4, compress(Codec.LZ4, TEXT) + b"\x00", max_bytes)


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 9))
def test_both_ways_to_read_lz4_agree(at: int, byte: int, cut: int) -> None:
    changed = bytearray(compress(Codec.LZ4, TEXT))
    changed[at % len(changed)] = byte
    found: list[object] = []
    for max_bytes in (len(TEXT), 2**26):
        try:
            found.append(decompress(Codec.LZ4, bytes(changed[: len(changed) - cut]), max_bytes))
        except CorruptRecordsError:
            found.append(CorruptRecordsError)
        except DecompressedTooLargeError:
            return
    assert found[0] == found[1]


@pytest.mark.parametrize("claimed", [1, 2**26 - 1, 2**40, 2**63])
def test_an_lz4_frame_that_lies_about_its_size(claimed: int) -> None:
    frame = bytearray(lz4.frame.compress(TEXT, store_size=True))
    frame[6:14] = claimed.to_bytes(8, "little")
    for checksum in range(256):  # one of them is for the changed header
        frame[14] = checksum
        with pytest.raises(CorruptRecordsError):
            decompress(Codec.LZ4, bytes(frame))


@pytest.mark.parametrize("claimed", [1, 2**26 - 1, 2**26 + 1, 2**31])
def test_a_zstd_frame_that_lies_about_its_size(claimed: int) -> None:
    frame = bytearray(compress(Codec.ZSTD, TEXT * 100))
    assert frame[4] & 0xE0 == 0xA0  # a single segment, its size in four bytes
    frame[5:9] = claimed.to_bytes(4, "little")
    with pytest.raises((CorruptRecordsError, DecompressedTooLargeError)):
        decompress(Codec.ZSTD, bytes(frame))


def test_zstd_is_read_by_many_threads_at_once() -> None:
    frames = [compress(Codec.ZSTD, TEXT * count) for count in range(1, 200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda frame: len(decompress(Codec.ZSTD, frame)), frames))
    assert found == [len(TEXT) * count for count in range(1, 200)]


def test_zstd_frames_of_unknown_size_are_read_and_concatenated() -> None:
    stream = cramjam.zstd.Compressor()
    stream.compress(TEXT)
    frame = bytes(stream.finish())
    assert frame[4] & 0xE0 == 0  # neither a single segment nor a size
    assert decompress(Codec.ZSTD, frame + frame) == TEXT * 2


def test_an_empty_section_is_no_compressed_one() -> None:
    for codec in COMPRESSING:
        with pytest.raises(CorruptRecordsError):
            decompress(codec, b"")


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codecs_that_do_not_exist(number: int) -> None:
    with pytest.raises(UnsupportedCodecError) as caught:
        codec_of(number)
    assert caught.value.kafka_error is KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE
