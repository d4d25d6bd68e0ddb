"""Compression of a batch's records section, byte-compatible with Kafka's clients.

Data is written as the Java client writes it: gzip members; snappy in xerial blocks; LZ4 frames with independent blocks
(the Java client cannot read linked ones); zstd frames. Like the Java client, this module can also read raw snappy,
which some clients write; concatenated gzip members, xerial streams and zstd frames; and zstd frames that do not state
the size of their content. Padding after a gzip member is ignored.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cramjam
import lz4.frame

from lacuna.logstore.records.errors import (
    CorruptRecordsError,
    DecompressedTooLargeError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024

_GZIP_WBITS: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_PIECE_BYTES: Final = 512
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")
_ZSTD_LEVEL: Final = 3
# The maximum number of bytes to which one byte of an LZ4 block decompresses. A frame is larger than its blocks.
_LZ4_MAX_EXPANSION: Final = 255
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_FLAGS_END: Final = 5
# Independent blocks, no dictionary and no reserved bit: the only form that Kafka's Java reader accepts.
_LZ4_JAVA_MASK: Final = 0x23
_LZ4_JAVA_FLAGS: Final = 0x20
_LEVELS: Final[Mapping[Codec, range]] = {
    Codec.GZIP: range(1, 10),
    Codec.LZ4: range(13),
    Codec.ZSTD: range(1, 23),
}
#: Codecs by their names in the config compression.type.
_KAFKA_NAMES: Final = {
    "uncompressed" if codec is Codec.NONE else codec.name.lower(): codec for codec in Codec
}
# At level 3 and above, lz4 compresses better but slowly. Kafka uses 9, the default, for its fast compression.
_SLOW_LZ4_LEVELS: Final = range(3, 13)


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec and a level, as passed to `compress`. A level of None means the codec's default."""

    codec: Codec
    level: int | None = None

    @classmethod
    def of_kafka(cls, name: str, level: int | None) -> Compression:
        """Return the compression for the values of Kafka's configs. A level that the library lacks is replaced by the
        nearest one.
        """
        codec = _KAFKA_NAMES[name]
        if level is not None:
            levels = _SLOW_LZ4_LEVELS if codec is Codec.LZ4 else _LEVELS[codec]
            level = min(max(level, levels[0]), levels[-1])
        return cls(codec, level)


def codec_of(number: int) -> Codec:
    """Return the codec with this number in the attribute bits. Raises UnsupportedCodecError for 5 to 7."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCodecError(
            f"compression codec {number} does not exist; use 0 to 4"
        ) from None


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`, a records section, in the framing of `codec`.

    `level` is specific to the codec (gzip 1 to 9, lz4 0 to 12, zstd 1 to 22; the others have none), or None for the
    default. Raises ValueError for a level that the codec does not have.
    """
    check_level(codec, level)
    return _COMPRESSORS[codec_of(codec)](memoryview(data), level)


def check_level(codec: int, level: int | None) -> None:
    """Raise ValueError if `codec` does not have this compression level."""
    levels = _LEVELS.get(codec_of(codec), range(0))
    if level is not None and level not in levels:
        has = f"levels {levels[0]} to {levels[-1]}" if levels else "no levels"
        raise ValueError(f"{codec_of(codec).name.lower()} has {has}: {level} is not valid")


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress a records section.

    Raises DecompressedTooLargeError if the result exceeds `max_bytes` (before it uses several times that much memory),
    CorruptRecordsError if the codec cannot read the data, and UnsupportedCodecError for an unknown codec.
    """
    return _DECOMPRESSORS[codec_of(codec)](memoryview(data), max_bytes)


def check_for_java(codec: int, data: Buffer) -> None:
    """Raise CorruptRecordsError if Java clients cannot read `data`, which `decompress` has already read.

    They cannot read LZ4 frames with linked blocks or a dictionary, which Kafka brokers reject as well.
    """
    if codec != Codec.LZ4:
        return
    flags = memoryview(data)[_LZ4_FLAGS_END - 1]
    if flags & _LZ4_JAVA_MASK != _LZ4_JAVA_FLAGS:
        raise CorruptRecordsError(
            "lz4: the frame has linked blocks or a dictionary, which Java clients cannot read; "
            "compress with independent blocks"
        )


def _compress_gzip(data: memoryview, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, _GZIP_WBITS)


def _compress_snappy(data: memoryview, _level: int | None) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _compress_lz4(data: memoryview, level: int | None) -> bytes:
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=level or 0,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _compress_zstd(data: memoryview, level: int | None) -> bytes:
    return zstd.compress(data, _ZSTD_LEVEL if level is None else level)


def _decompress_none(data: memoryview, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise DecompressedTooLargeError(max_bytes)
    return bytes(data)


def _decompress_gzip(data: memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    position = 0
    piece_bytes = len(data)
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            piece = data[position : position + piece_bytes]
            if not len(piece):
                raise CorruptRecordsError("gzip: the data ends inside a member")
            try:
                part = member.decompress(piece, left + 1)
            except zlib.error as error:
                raise CorruptRecordsError(f"gzip: {error}") from error
            if len(part) > left:
                raise DecompressedTooLargeError(max_bytes)
            left -= len(part)
            parts.append(part)
            position += len(piece) - len(member.unused_data)
            piece_bytes *= 2
        if bytes(data[position : position + len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
            return b"".join(parts)
        # The bytes after a member are copied, so many small members in one large piece would take quadratic time.
        piece_bytes = _GZIP_PIECE_BYTES


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    parts: list[bytes] = []
    left = max_bytes
    position = 0
    while position < len(data):
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if len(data) < position:
                raise CorruptRecordsError("snappy: the data ends inside the xerial header")
            continue
        if len(data) - position < _INT32.size:
            raise CorruptRecordsError("snappy: the data ends inside a block's size")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 < size <= len(data) - position:
            raise CorruptRecordsError(f"snappy: {size} is not a possible size of the next block")
        parts.append(_decompress_snappy_block(data[position : position + size], left, max_bytes))
        left -= len(parts[-1])
        position += size
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > left:
            raise DecompressedTooLargeError(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecordsError(f"snappy: {error}") from error


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    # One call is several times faster for a small frame. It is safe only if the content cannot exceed the limit and the
    # frame states no size, which the library would trust before reading the frame.
    may_be_large = len(data) * _LZ4_MAX_EXPANSION > max_bytes
    if may_be_large or len(data) < _LZ4_FLAGS_END or data[_LZ4_FLAGS_END - 1] & _LZ4_HAS_SIZE:
        return _decompress_lz4_stepwise(data, max_bytes)
    try:
        content, size = lz4.frame.decompress(data, return_bytes_read=True)
    except (RuntimeError, ValueError) as error:
        raise CorruptRecordsError(f"lz4: {error}") from error
    if size != len(data):
        raise CorruptRecordsError("lz4: bytes follow the frame")
    return bytes(content)


def _decompress_lz4_stepwise(data: memoryview, max_bytes: int) -> bytes:
    context = (
        lz4.frame.create_decompression_context()
    )  # LZ4FrameDecompressor would copy the data first
    parts: list[bytes] = []
    left = max_bytes
    rest = data
    is_end = False
    while not is_end:
        step = min(left + 1, max(1 << 12, 8 * len(data)))
        try:
            part, size, is_end = lz4.frame.decompress_chunk(context, rest, max_length=step)
        except (RuntimeError, ValueError) as error:
            raise CorruptRecordsError(f"lz4: {error}") from error
        if len(part) > left:
            raise DecompressedTooLargeError(max_bytes)
        if not part and not size and not is_end:
            raise CorruptRecordsError("lz4: the data ends inside the frame")
        left -= len(part)
        parts.append(part)
        rest = rest[size:]
    if rest:
        raise CorruptRecordsError("lz4: bytes follow the frame")
    return b"".join(parts)


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    position = 0
    while position < len(data) or not parts:
        try:
            # Exactly one frame: leftover bytes would be copied, which takes quadratic time for many small frames.
            end = position + zstd.get_frame_size(data[position:])
            part = zstd.ZstdDecompressor().decompress(data[position:end], left + 1)
        except zstd.ZstdError as error:
            raise CorruptRecordsError(f"zstd: {error}") from error
        if len(part) > left:
            raise DecompressedTooLargeError(max_bytes)
        left -= len(part)
        parts.append(part)
        position = end
    return b"".join(parts)


_COMPRESSORS: Final[Mapping[Codec, Callable[[memoryview, int | None], bytes]]] = {
    Codec.NONE: lambda data, _: bytes(data),
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: Final[Mapping[Codec, Callable[[memoryview, int], bytes]]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
