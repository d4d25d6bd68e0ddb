"""Compression of a wrapper's inner set, in the framings that Kafka uses for old clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lacuna.logstore.records.compression import codec_of, compress, decompress
from lacuna.logstore.records.errors import UnsupportedCodecError
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.legacy.layout import MAGIC_0
from lacuna.logstore.records.legacy.lz4_header import with_old_checksum, with_right_checksum

if TYPE_CHECKING:
    from typing_extensions import Buffer


def legacy_codec(number: int) -> Codec:
    """Return the codec with this number in the attribute bits.

    Raises UnsupportedCodecError for numbers that message sets cannot have, including zstd's, which came with magic 2
    (KIP-110).
    """
    codec = codec_of(number)
    if codec is Codec.ZSTD:
        raise UnsupportedCodecError("zstd needs record batches (magic 2); use gzip, snappy or lz4")
    return codec


def codec_for(codec: Codec) -> Codec:
    """Return the codec for a batch's wrapper: the batch's own, or gzip, which all clients support, in place of zstd."""
    return Codec.GZIP if codec is Codec.ZSTD else codec


def compress_set(codec: Codec, inner: Buffer, magic: int) -> bytes:
    """Compress `inner`, a complete message set, as the value of a wrapper of `magic`."""
    compressed = compress(legacy_codec(codec), inner)
    if codec is Codec.LZ4 and magic == MAGIC_0:
        return with_old_checksum(compressed)
    return compressed


def decompress_set(codec: Codec, value: Buffer, magic: int, max_bytes: int) -> bytes:
    """Return the message set in a wrapper's `value`, of at most `max_bytes`. Raises the same errors as `decompress`."""
    if codec is Codec.LZ4 and magic == MAGIC_0:
        value = with_right_checksum(value)
    return decompress(legacy_codec(codec), value, max_bytes)
