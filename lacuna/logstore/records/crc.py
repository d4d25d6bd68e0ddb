"""CRC-32C (Castagnoli), the checksum of record batches and of segment blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c as _crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of `data`, continued from `value`: an unsigned 32-bit int."""
    return _crc32c(data, value)
