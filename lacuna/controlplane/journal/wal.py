"""Finds damage in SQLite's write-ahead log, without I/O.

SQLite reads the log up to the first invalid frame, and treats the rest as an unfinished commit. That is right if a
power cut interrupted a commit, but wrong if the log was damaged later, since the frames after the invalid one then
belong to finished commits.

The later frames tell the two cases apart. A commit is synced before the next one begins, so at most one commit is not
synced, and its last frame has the commit mark. If a frame follows a commit mark and continues its checksum, the commit
before it had been synced, so any invalid frame up to that mark was damaged later. Two kinds of frames prove nothing:
those from an earlier use of the log, which have a different salt, and those left over after a shorter commit, which do
not continue its checksum.

The format: https://www.sqlite.org/fileformat2.html#walformat
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_COVERED: Final = 8  # bytes of a frame's header that its checksum covers
_MAGIC: Final = 0x377F0682  # with bit 0 set, the checksums read their words as big-endian
_MASK: Final = 0xFFFFFFFF

#: A checksum of two words, from which the next frame's checksum continues.
Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WalDamage:
    """An invalid frame that is followed by finished commits: `size` bytes at byte `position`."""

    position: int
    size: int


class _Frame(NamedTuple):
    position: int
    page: int
    is_commit: bool
    salt: tuple[int, int]
    sums: Sums


class _Log:
    """A write-ahead log with a valid header."""

    def __init__(self, wal: bytes, byte_order: str, page_size: int, salt: Sums) -> None:
        self._wal = wal
        self.salt = salt
        self.frame_size = _FRAME.size + page_size
        self._words = struct.Struct(f"{byte_order}{page_size // 4}I")
        self._head = struct.Struct(f"{byte_order}2I")

    def frames(self) -> Iterator[_Frame]:
        for position in range(_HEADER.size, len(self._wal) - self.frame_size + 1, self.frame_size):
            page, pages, *rest = _FRAME.unpack_from(self._wal, position)
            yield _Frame(position, page, pages != 0, (rest[0], rest[1]), (rest[2], rest[3]))

    def sums_of(self, frame: _Frame, before: Sums) -> Sums:
        """Return the checksum that the frame should have; `before` is that of the frame before it."""
        sums = _add(before, self._head.unpack_from(self._wal, frame.position))
        return _add(sums, self._words.unpack_from(self._wal, frame.position + _FRAME.size))


def find_damage(wal: bytes) -> WalDamage | None:
    """Return the first invalid frame if later frames prove that it was once valid. None does not prove that the log is
    intact.
    """
    found = _open(wal)
    if found is None:
        return None
    log, sums = found
    frames = log.frames()
    for frame in frames:
        expected = log.sums_of(frame, sums)
        if frame.salt != log.salt or not frame.page or frame.sums != expected:
            is_proven = _has_later_commit(log, frame, expected, frames)
            return WalDamage(frame.position, log.frame_size) if is_proven else None
        sums = frame.sums
    return None


def _has_later_commit(log: _Log, bad: _Frame, expected: Sums, rest: Iterator[_Frame]) -> bool:
    """Whether the checksum of a frame in `rest` continues that of a commit frame, which may be `bad` or a later one."""
    before = bad
    possible = {bad.sums, expected}  # damage leaves at least one of the two right
    for frame in rest:
        if frame.salt != log.salt:
            return False
        goes_on = any(log.sums_of(frame, sums) == frame.sums for sums in possible)
        if goes_on and before.is_commit:
            return True
        before, possible = frame, {frame.sums}
    return False


def _open(wal: bytes) -> tuple[_Log, Sums] | None:
    """Return the log and its header's checksum, or None if the header is missing or invalid."""
    if len(wal) < _HEADER.size:
        return None
    magic, _, page_size, _, *salt_and_sums = _HEADER.unpack_from(wal)
    if magic & ~1 != _MAGIC or not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        return None
    byte_order = ">" if magic & 1 else "<"
    salt, sums = (salt_and_sums[0], salt_and_sums[1]), (salt_and_sums[2], salt_and_sums[3])
    if _add((0, 0), struct.unpack_from(f"{byte_order}6I", wal)) != sums:
        return None
    return _Log(wal, byte_order, page_size, salt), sums


def _add(sums: Sums, words: tuple[int, ...]) -> Sums:
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
