"""Compression of a batch's records section, byte-compatible with Kafka's clients.

Framings, as the Java client writes them: gzip members; snappy in xerial blocks; an LZ4 frame with
independent blocks (the Java reader refuses linked ones); a zstd frame. Read besides, as the Java
client does: raw snappy (some clients write it), concatenated gzip members, xerial streams and zstd
frames, zstd frames that do not say how large their content is; what follows a gzip member and is none
(padding) is passed over.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cramjam
import lz4.frame
import zstandard

from logstore.records.errors import (
    CorruptRecordsError,
    DecompressedTooLargeError,
    UnsupportedCodecError,
)
from logstore.records.layout import Codec

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
# A zstd block of four bytes may stand for 128 KiB: pieces of input are kept so small that one of
# them cannot expand beyond the limit.
_ZSTD_MAX_EXPANSION: Final = 32 * 1024
_MIN_PIECE_BYTES: Final = 64
_ZSTD_LEVEL: Final = 3
# What a byte of an LZ4 block stands for at most; a frame adds to its blocks, never takes away.
_LZ4_MAX_EXPANSION: Final = 255
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_FLAGS_END: Final = 5
# Independent blocks, and neither a dictionary nor the reserved bit: all that Kafka's Java reader takes.
_LZ4_JAVA_MASK: Final = 0x23
_LZ4_JAVA_FLAGS: Final = 0x20
_LEVELS: Final[Mapping[Codec, range]] = {
    Codec.GZIP: range(1, 10),
    Codec.LZ4: range(13),
    Codec.ZSTD: range(1, zstandard.MAX_COMPRESSION_LEVEL + 1),
}
#: As the config compression.type has them.
_KAFKA_NAMES: Final[Mapping[str, Codec]] = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
# lz4 has its slow, better compression from level 3 on; Kafka's default, 9, is its name for the fast one.
_SLOW_LZ4_LEVELS: Final = range(3, 13)


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec and its level as `compress` takes them, None for the codec's default."""

    codec: Codec
    level: int | None = None

    @classmethod
    def of_kafka(cls, name: str, level: int | None) -> Compression:
        """From Kafka's configs; the nearest level where our library has no such one."""
        codec = _KAFKA_NAMES[name]
        if level is not None:
            levels = _SLOW_LZ4_LEVELS if codec is Codec.LZ4 else _LEVELS[codec]
            level = min(max(level, levels[0]), levels[-1])
        return cls(codec, level)


class _Thread(threading.local):
    """What is dear to make and not to be shared by threads."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_THREAD: Final = _Thread()


def codec_of(number: int) -> Codec:
    """The codec of attribute bits `number`; UnsupportedCodecError for 5 to 7, which none has."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCodecError(
            f"compression codec {number} does not exist; use 0 to 4"
        ) from None


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` (an uncompressed records section) in the framing of `codec`.

    `level` is the codec's own (gzip 1 to 9, lz4 0 to 12, zstd 1 to 22), None for its default.
    ValueError for a level that it does not have, as snappy and no compression have none.
    """
    check_level(codec, level)
    return _COMPRESSORS[codec_of(codec)](memoryview(data), level)


def check_level(codec: int, level: int | None) -> None:
    """Raise ValueError where `codec` has no such compression level."""
    levels = _LEVELS.get(codec_of(codec), range(0))
    if level is not None and level not in levels:
        has = f"levels {levels[0]} to {levels[-1]}" if levels else "no levels"
        raise ValueError(f"{codec_of(codec).name.lower()} has {has}, so {level} is not one of them")


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes:
    """The records section behind `data`, at most `max_bytes` long.

    Raises DecompressedTooLargeError beyond `max_bytes` (before that much memory is taken several
    times over), CorruptRecordsError where the codec cannot read the bytes, UnsupportedCodecError
    for no codec.
    """
    return _DECOMPRESSORS[codec_of(codec)](memoryview(data), max_bytes)


def check_for_java(codec: int, data: Buffer) -> None:
    """Raise CorruptRecordsError for what `decompress`, which took `data`, reads and Java clients do not.

    That are LZ4 frames with linked blocks or a dictionary: a Kafka broker, which is Java, refuses them.
    """
    if codec != Codec.LZ4:
        return
    flags = memoryview(data)[_LZ4_FLAGS_END - 1]
    if flags & _LZ4_JAVA_MASK != _LZ4_JAVA_FLAGS:
        raise CorruptRecordsError(
            "lz4: the frame has linked blocks or a dictionary, which Java clients cannot read; "
            "compress with independent blocks"
        )


def _compress_none(data: memoryview, _level: int | None) -> bytes:
    return bytes(data)


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
    return zstandard.ZstdCompressor(_ZSTD_LEVEL if level is None else level).compress(data)


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
        # What a member leaves of a piece is copied: of many small ones in one piece that is the square.
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
            raise CorruptRecordsError(f"snappy: a block of {size} bytes does not fit the data")
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
    # In one call, which is several times faster for a small frame, where its size can neither pass
    # the limit nor be made up: a frame that says its size is believed before it is read.
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
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    left = max_bytes
    rest: memoryview | bytes = data
    while not frame.eof:
        step = min(left + 1, max(1 << 12, 8 * len(data)))
        try:
            part = frame.decompress(rest, step)
        except (RuntimeError, ValueError) as error:
            raise CorruptRecordsError(f"lz4: {error}") from error
        if len(part) > left:
            raise DecompressedTooLargeError(max_bytes)
        if not part and not frame.eof:
            raise CorruptRecordsError("lz4: the data ends inside the frame")
        left -= len(part)
        parts.append(part)
        rest = b""
    if frame.unused_data:
        raise CorruptRecordsError("lz4: bytes follow the frame")
    return b"".join(parts)


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    # In one call, which is faster, where it is one frame that says how large its content is.
    try:
        if 0 < zstandard.frame_content_size(data) <= max_bytes:
            return _THREAD.zstd.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        return _decompress_zstd_stepwise(data, max_bytes)
    return _decompress_zstd_stepwise(data, max_bytes)


def _decompress_zstd_stepwise(data: memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    piece_bytes = max(_MIN_PIECE_BYTES, max_bytes // _ZSTD_MAX_EXPANSION)
    frame = _THREAD.zstd.decompressobj()
    position = 0
    while position < len(data):
        if frame.eof:
            frame = _THREAD.zstd.decompressobj()
        piece = data[position : position + piece_bytes]
        try:
            part = frame.decompress(piece)
        except zstandard.ZstdError as error:
            raise CorruptRecordsError(f"zstd: {error}") from error
        if len(part) > left:
            raise DecompressedTooLargeError(max_bytes)
        left -= len(part)
        parts.append(part)
        position += len(piece) - len(frame.unused_data)
    if not frame.eof:
        raise CorruptRecordsError("zstd: the data ends inside a frame")
    return b"".join(parts)


_COMPRESSORS: Final[Mapping[Codec, Callable[[memoryview, int | None], bytes]]] = {
    Codec.NONE: _compress_none,
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
