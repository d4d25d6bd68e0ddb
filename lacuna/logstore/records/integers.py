"""Big-endian integers and varints in buffers, for the interpreted form of the kernel's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def int64_at(data: Buffer, at: int) -> int:
    return int.from_bytes(memoryview(data)[at : at + 8], "big", signed=True)


def uint32_at(data: Buffer, at: int) -> int:
    return int.from_bytes(memoryview(data)[at : at + 4], "big")


def int32_at(data: Buffer, at: int) -> int:
    return int.from_bytes(memoryview(data)[at : at + 4], "big", signed=True)


def int16_at(data: Buffer, at: int) -> int:
    return int.from_bytes(memoryview(data)[at : at + 2], "big", signed=True)


def put_int(out: bytearray | memoryview, at: int, value: int, width: int) -> None:
    """Write the lowest `width` bytes of `value`."""
    out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "big")


def put_varint(out: bytearray | memoryview, at: int, value: int) -> int:
    """Write `value` as a zigzag varint at `at`. Return the position after it."""
    bits = (value << 1) ^ (value >> 63)
    while bits > 0x7F:
        out[at] = (bits & 0x7F) | 0x80
        bits >>= 7
        at += 1
    out[at] = bits
    return at + 1


def varint_size(value: int) -> int:
    return max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


def copy(out: bytearray | memoryview, at: int, data: Buffer, start: int, length: int) -> int:
    """Copy data[start:start + length] to `at` unless `length` is negative. Return the position after the copy."""
    if length <= 0:
        return at
    out[at : at + length] = memoryview(data)[start : start + length]
    return at + length


def overflows(base: int, delta: int) -> bool:
    return not -(1 << 63) <= base + delta < 1 << 63


def is_far(base: int, other: int) -> bool:
    return not -(1 << 63) <= other - base < 1 << 63
