"""Big-endian integers at a position of a buffer, as the kernel's modules call it where they are interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def int64_at(data: Buffer, at: int) -> int:
    """Return the signed integer in the eight bytes from `at` on."""
    return int.from_bytes(memoryview(data)[at : at + 8], "big", signed=True)


def uint32_at(data: Buffer, at: int) -> int:
    """Return the unsigned integer in the four bytes from `at` on."""
    return int.from_bytes(memoryview(data)[at : at + 4], "big")


def int32_at(data: Buffer, at: int) -> int:
    """Return the signed integer in the four bytes from `at` on."""
    return int.from_bytes(memoryview(data)[at : at + 4], "big", signed=True)


def int16_at(data: Buffer, at: int) -> int:
    """Return the signed integer in the two bytes from `at` on."""
    return int.from_bytes(memoryview(data)[at : at + 2], "big", signed=True)
