"""The appends of a journal in the bucket: one object each, numbered from 1 without a gap.

    magic, format version, number, epoch, first position, count of records, random id,
    CRC-32 of the records, CRC-32 of all before, the records as `rows.encode_records` encodes them

An opening is an append without records, by which a new leader closes the journal to earlier ones, whose next append
would have its number. The random id makes every object different, so that a writer recognizes its own.
"""

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from lacuna.controlplane.journal.bucket_calls import READ_THREADS, Bucket
from lacuna.controlplane.journal.bucket_manifest import START, Manifest, Mark, load_manifest
from lacuna.controlplane.journal.formats import check_format
from lacuna.controlplane.journal.journal import (
    REMEDY,
    Fit,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalLoss,
    JournalReplaced,
    JournalTrimmed,
    Seal,
)
from lacuna.controlplane.journal.rows import decode_records, encode_records
from lacuna.logstore.segments.paths import (
    JOURNAL_APPENDS_PREFIX,
    InvalidPathError,
    journal_append_key,
    parse_journal_append_key,
)

_MAGIC: Final = b"LacA"
_FORMAT_VERSION: Final = 1
_FIELDS: Final = struct.Struct("<4sHQQQI16sI")
_CHECKSUM: Final = struct.Struct("<I")

#: An object of this size is an opening. One with records is larger.
OPENING_BYTES: Final = _FIELDS.size + _CHECKSUM.size

_AHEAD: Final = READ_THREADS
_KEPT_MARKS: Final = 256


class AppendHeader(NamedTuple):
    """The header of an append, which has `records` records, the first of them at `first_position`."""

    number: int
    epoch: int
    first_position: int
    records: int
    records_crc: int
    crc: int

    @property
    def seal(self) -> Seal:
        """Identifies the append among all others, since the checksum also covers a random id."""
        return Seal(self.number, self.crc)

    @property
    def mark(self) -> Mark:
        """The journal's end after this append."""
        return Mark(self.number, self.first_position + self.records - 1)


@dataclass(frozen=True, slots=True)
class Append:
    """An append that was read."""

    header: AppendHeader
    records: list[bytes]


def encode_append(
    after: Mark, epoch: int, append_id: bytes, records: Sequence[bytes]
) -> tuple[Mark, bytes]:
    """Return the object that appends `records`, perhaps none, after a mark, and the mark after it.

    `append_id` is 16 random bytes.
    """
    body = encode_records(records)
    fields = _FIELDS.pack(
        _MAGIC, _FORMAT_VERSION, after.number + 1, epoch, after.position + 1, len(records), append_id, crc32(body)
    )  # fmt: skip
    mark = Mark(after.number + 1, after.position + len(records))
    return mark, b"".join((fields, _CHECKSUM.pack(crc32(fields)), body))


def decode_header(number: int, data: bytes) -> AppendHeader:
    """Decode the beginning of the object of append `number`. Raises JournalCorrupt and JournalOfAnotherVersion."""
    if len(data) < OPENING_BYTES or not data.startswith(_MAGIC):
        raise _damaged(number)
    _, version, stored_number, epoch, first_position, count, _, records_crc = _FIELDS.unpack_from(
        data
    )
    check_format(f"the format of append {number}", version, _FORMAT_VERSION)
    (crc,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if crc != crc32(data[: _FIELDS.size]) or stored_number != number:
        raise _damaged(number)
    return AppendHeader(number, epoch, first_position, count, records_crc, crc)


def decode_append(number: int, data: bytes) -> Append:
    """Decode the object of append `number`. Raises JournalCorrupt and JournalOfAnotherVersion."""
    header = decode_header(number, data)
    body = data[OPENING_BYTES:]
    if crc32(body) != header.records_crc:
        raise _damaged(number)
    try:
        records = decode_records(body)
    except ValueError as error:
        raise _damaged(number) from error
    if len(records) != header.records:
        raise _damaged(number)
    return Append(header, records)


def _damaged(number: int) -> JournalCorrupt:
    return JournalCorrupt(
        f"the object {journal_append_key(number)} differs from what was written: restore it from a backup"
    )


def lost(name: str, number: int) -> JournalLoss:
    """Return the error for a bucket that lacks an acknowledged append."""
    return JournalLoss(
        f"{name}: the object {journal_append_key(number)} is missing, although it was "
        "acknowledged. Restore it from an earlier version in the bucket, and make sure that no "
        f"lifecycle rule deletes journal/. {REMEDY}"
    )


class Appends:
    """Reads the appends in a bucket. It remembers their positions, up to a bound."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._marks: deque[Mark] = deque(maxlen=_KEPT_MARKS)

    @property
    def last_known(self) -> Mark:
        """The last append that was read here."""
        return max(self._marks, default=START)

    def note(self, mark: Mark) -> None:
        """Remember a durable append."""
        self._marks.append(mark)

    async def batches(
        self,
        after_position: int,
        seal: Seal | None = None,
        *,
        until: int | None = None,
        seen: Manifest | None = None,
    ) -> AsyncIterator[JournalBatch]:
        """Yield what is durable after `after_position`. The other parameters are those of `follow`.

        If there is anything, `seal` is compared first. Raises JournalTrimmed, JournalReplaced and JournalCorrupt.
        """
        after = max((mark for mark in self._marks if mark.position == after_position), default=None)
        if after is None:
            manifest = await load_manifest(self._bucket)
            if manifest is None:
                return
            after = await self._before(after_position, manifest)
        try:
            async for append in self.follow(after, until=until, seen=seen):
                header = append.header
                skipped = max(0, after_position + 1 - header.first_position)
                if skipped < len(append.records):
                    if seal is not None:
                        await self.check(seal)
                        seal = None
                    yield JournalBatch(header.mark.position, append.records[skipped:], header.seal)
        except JournalCorrupt:
            # An append that does not follow the last one may follow one that replaced it.
            if seal is not None:
                await self.check(seal)
            raise

    async def check(self, seal: Seal) -> None:
        """Raise JournalReplaced unless the append with this seal exists. Makes one request for some bytes."""
        header = await self.header_of(seal.place)
        if header is None or header.seal != seal:
            self._marks.clear()
            raise JournalReplaced(
                f"{self._bucket.name}: {journal_append_key(seal.place)} is not the one that was "
                "read, as happens after a restore to an earlier time: the journal is read again "
                "from its newest snapshot"
            )

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        """Return how a snapshot fits, as `JournalReader.fit` does, by one or two requests for some bytes."""
        header = await self.header_of(seal.place)
        if header is not None:
            return Fit.FITS if header.seal == seal else Fit.BESIDE
        manifest = await load_manifest(self._bucket)
        trimmed = START if manifest is None else manifest.trimmed
        # A trim keeps the append of a snapshot that may still be loaded.
        is_spent = position <= trimmed.position or seal.place <= trimmed.number
        return Fit.SPENT if is_spent else Fit.AHEAD

    async def _before(self, position: int, manifest: Manifest) -> Mark:
        """Return a mark from which a reader of the records after `position` reads few others."""
        if position < manifest.trimmed.position:
            raise self._trimmed(position + 1)
        if position < manifest.last.position:
            return await self.last_before(position, manifest.trimmed, manifest.last, within=_AHEAD)
        return max([manifest.last, *(mark for mark in self._marks if mark.position <= position)])

    async def follow(
        self, after: Mark, *, until: int | None = None, seen: Manifest | None = None
    ) -> AsyncIterator[Append]:
        """Yield the appends after a mark, up to the end, or up to number `until` if all are known to exist.

        The end is where there is no append and the manifest knows of none: either `seen`, an earlier manifest, or the
        current one. Several appends are read at a time, up to `_AHEAD`: at once as far as they are known to exist,
        otherwise in growing numbers. Raises JournalTrimmed, JournalLoss and JournalCorrupt.
        """
        epoch = 0
        known = max(self._marks, default=after).number if until is None else until
        width = min(max(1, known - after.number), _AHEAD)
        reads: deque[asyncio.Task[bytes | None]] = deque()
        number = after.number
        try:
            while until is None or after.number < until:
                while len(reads) < width and number != until:
                    number += 1
                    reads.append(asyncio.create_task(self._bucket.read(journal_append_key(number))))
                data = await reads.popleft()
                if data is None:
                    if await self._is_end(after.number + 1, until, seen):
                        return
                    _drop(reads)
                    number = after.number
                    continue
                append = decode_append(after.number + 1, data)
                header = append.header
                if header.first_position != after.position + 1 or header.epoch < epoch:
                    raise await self._why_out_of_order(header.number)
                epoch, after = header.epoch, header.mark
                self.note(after)
                yield append
                width = min(2 * width, _AHEAD)
        finally:
            _drop(reads)

    async def last_before(self, position: int, low: Mark, high: Mark, within: int) -> Mark:
        """Return a mark at or before `position`, at most `within` appends before the last such mark below `high`.

        `low` is at or before the position. Raises JournalTrimmed and JournalCorrupt.
        """
        for mark in self._marks:
            if low.number < mark.number < high.number:
                if mark.position <= position:
                    low = mark
                else:
                    high = mark
        while high.number - low.number > within:
            mark = await self._mark_of((low.number + high.number) // 2)
            if mark.position <= position:
                low = mark
            else:
                high = mark
        return low

    async def listed(self, after_number: int) -> list[tuple[int, int]]:
        """Return the numbers of the next existing appends, with the sizes of their objects in bytes."""
        start_after = journal_append_key(after_number)
        found: list[tuple[int, int]] = []
        for info in await self._bucket.list(JOURNAL_APPENDS_PREFIX, start_after):
            with suppress(InvalidPathError):
                found.append((parse_journal_append_key(info.key), info.size))
        return found

    async def header_of(self, number: int) -> AppendHeader | None:
        """Return the header of an append, or None if it does not exist. Raises JournalCorrupt."""
        data = await self._bucket.read_beginning(journal_append_key(number), OPENING_BYTES)
        return None if data is None else decode_header(number, data)

    async def _mark_of(self, number: int) -> Mark:
        header = await self.header_of(number)
        if header is None:
            manifest = await load_manifest(self._bucket)
            raise self._why_missing(number, manifest)
        self.note(header.mark)
        return header.mark

    async def _is_end(self, number: int, until: int | None, seen: Manifest | None) -> bool:
        """Return whether the journal ends before append `number`, which did not exist when it was read.

        The journal does not end there if the append was written since. Raises JournalTrimmed if it was deleted because
        a snapshot covers it, and JournalLoss if it was acknowledged.
        """
        if until is None:
            if seen is not None and number > seen.last.number:
                return True
            manifest = await load_manifest(self._bucket)
            if manifest is None or number > manifest.last.number:
                return True
            if number > manifest.trimmed.number and await self.header_of(number) is not None:
                return False
        raise self._why_missing(number, await load_manifest(self._bucket))

    def _why_missing(self, number: int, manifest: Manifest | None) -> JournalError:
        """Return the reason. The manifest was read after the append was found to be missing."""
        if manifest is not None and number <= manifest.trimmed.number:
            return self._trimmed_append(number)
        return lost(self._bucket.name, number)

    async def _why_out_of_order(self, number: int) -> JournalError:
        """Return the reason. While appends are being deleted, a late opening may lie for a while between remaining
        ones.
        """
        manifest = await load_manifest(self._bucket)
        if manifest is not None and number <= manifest.trimmed.number:
            return self._trimmed_append(number)
        return JournalCorrupt(
            f"{self._bucket.name}: append {number} of the journal does not follow the one before it: restore the "
            "objects under journal/ from a backup"
        )

    def _trimmed(self, position: int) -> JournalTrimmed:
        return JournalTrimmed(
            f"{self._bucket.name}: the journal's record {position} was deleted, because a "
            "snapshot covers it: load the newest snapshot"
        )

    def _trimmed_append(self, number: int) -> JournalTrimmed:
        return JournalTrimmed(
            f"{self._bucket.name}: the journal's append {number} was deleted, because a snapshot "
            "covers it: load the newest snapshot"
        )


def _drop(reads: "deque[asyncio.Task[bytes | None]]") -> None:
    while reads:
        read = reads.popleft()
        read.add_done_callback(_ignore)
        read.cancel()


def _ignore(read: "asyncio.Task[bytes | None]") -> None:
    """Ignore the error of a read that no caller awaits any more."""
    if not read.cancelled():
        read.exception()
