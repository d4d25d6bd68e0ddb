"""The header checksum, wrong by convention, of LZ4 frames in message sets of magic 0.

Kafka's first LZ4 codec included the frame's magic number in the checksum of the frame descriptor (KAFKA-3160). Magic 0
has kept this checksum: readers expect the wrong value or ignore it, and writers must write it. Magic 1 and above use
the correct one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS_AT: Final = 4
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01
_DESCRIPTOR_END: Final = 6
_CONTENT_SIZE_BYTES: Final = 8

_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK: Final = 0xFFFFFFFF
_LANE_BYTES: Final = 4
_STRIPE_BYTES: Final = 16


def with_right_checksum(frame: Buffer) -> bytes:
    """Return `frame` with the header checksum required by the LZ4 frame format."""
    return _with_checksum(bytes(frame), _FLAGS_AT)


def with_old_checksum(frame: Buffer) -> bytes:
    """Return `frame` with the header checksum that readers of magic 0 expect."""
    return _with_checksum(bytes(frame), 0)


def _with_checksum(frame: bytes, covered_from: int) -> bytes:
    """Replace the checksum, unless `frame` is not a frame with a plain header, which the codec will reject."""
    if len(frame) <= _DESCRIPTOR_END or not frame.startswith(_FRAME_MAGIC):
        return frame
    flags = frame[_FLAGS_AT]
    at = _DESCRIPTOR_END + (_CONTENT_SIZE_BYTES if flags & _HAS_CONTENT_SIZE else 0)
    if flags & _HAS_DICTIONARY or len(frame) <= at:
        return frame
    checksum = xxh32_short(frame[covered_from:at]) >> 8 & 0xFF
    return b"".join((frame[:at], bytes((checksum,)), frame[at + 1 :]))


def xxh32_short(data: bytes) -> int:
    """Return the xxHash-32, with seed 0, of fewer than 16 bytes. No frame header is longer."""
    if len(data) >= _STRIPE_BYTES:
        raise ValueError(f"{len(data)} bytes are too many for the short form")
    one, two, three, four, five = _PRIMES
    hashed = five + len(data)
    whole = len(data) - len(data) % _LANE_BYTES
    for at in range(0, whole, _LANE_BYTES):
        lane = int.from_bytes(data[at : at + _LANE_BYTES], "little")
        hashed = _rotated(hashed + lane * three, 17) * four
    for byte in data[whole:]:
        hashed = _rotated(hashed + byte * five, 11) * one
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 15) * two & _MASK
    hashed = (hashed ^ hashed >> 13) * three & _MASK
    return hashed ^ hashed >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
