"""The appends of a journal in the bucket: one object each, numbered from 1 without gaps.

    head:  magic, format version, number, epoch, first position, count of records, random id, CRC-32 of the directory
           and the records, size of the records in bytes, count of hot segments, CRC-32 of everything before it,
           the directory (of each hot segment: lease id, sequence, size in bytes, and its `hot_checksum`),
           the records as `rows.encode_records` encodes them
    then the bytes of the hot segments, in the order of the directory

A replay reads only the head. An opening is an append without records or hot segments, with which a new leader takes the
number that an earlier leader's next append would have. The random id makes every object different, so that a writer
recognizes its own.
"""

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from lacuna.controlplane.journal.bucket_calls import LISTED_AT_ONCE, READ_THREADS, Bucket
from lacuna.controlplane.journal.bucket_manifest import START, Manifest, Mark, load_manifest
from lacuna.controlplane.journal.formats import check_format
from lacuna.controlplane.journal.hot_segments import hot_checksum
from lacuna.controlplane.journal.journal import (
    REMEDY,
    Fit,
    HotKey,
    HotSegment,
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
_FIELDS: Final = struct.Struct("<4sHQQQI16sIII")
_ENTRY: Final = struct.Struct("<qqII")
_CHECKSUM: Final = struct.Struct("<I")

#: An object of this size is an opening. One with records or hot segments is larger.
OPENING_BYTES: Final = _FIELDS.size + _CHECKSUM.size

#: How many bytes of an append a replay reads first. They include the whole head of almost every append.
_HEAD_BYTES: Final = 128 << 10

_AHEAD: Final = READ_THREADS
_KEPT_MARKS: Final = 256


class AppendHeader(NamedTuple):
    """The header of an append with `records` records, the first at `first_position`, and with `hot` hot segments."""

    number: int
    epoch: int
    first_position: int
    records: int
    head_crc: int
    records_bytes: int
    hot: int
    crc: int

    @property
    def seal(self) -> Seal:
        """The append's seal, which is unique because the checksum covers a random id."""
        return Seal(self.number, self.crc)

    @property
    def head_bytes(self) -> int:
        """The size of the object without the bytes of its hot segments."""
        return OPENING_BYTES + self.hot * _ENTRY.size + self.records_bytes

    @property
    def mark(self) -> Mark:
        """The journal's end once this append is durable."""
        return Mark(self.number, self.first_position + self.records - 1)


class HotEntry(NamedTuple):
    """The location of a hot segment in its append's object: `size` bytes at `position`."""

    key: HotKey
    position: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class Append:
    """An append as read, without the bytes of its hot segments."""

    header: AppendHeader
    records: list[bytes]
    hot: list[HotEntry]


def encode_append(
    after: Mark,
    epoch: int,
    append_id: bytes,
    records: Sequence[bytes],
    hot: Sequence[HotSegment] = (),
) -> tuple[Mark, bytes]:
    """Return the mark of the append that follows `after`, and its object, which contains `records` and `hot`. Either
    may be empty. `append_id` is 16 random bytes.
    """
    directory = b"".join(
        _ENTRY.pack(*each.key, len(each.data), hot_checksum(*each)) for each in hot
    )
    body = encode_records(records)
    fields = _FIELDS.pack(
        _MAGIC, _FORMAT_VERSION, after.number + 1, epoch, after.position + 1, len(records), append_id,
        crc32(body, crc32(directory)), len(body), len(hot)
    )  # fmt: skip
    mark = Mark(after.number + 1, after.position + len(records))
    head = (fields, _CHECKSUM.pack(crc32(fields)), directory, body)
    return mark, b"".join((*head, *(each.data for each in hot)))


def decode_header(number: int, data: bytes) -> AppendHeader:
    """Decode the header of append `number`. Raises JournalCorrupt and JournalOfAnotherVersion."""
    if len(data) < OPENING_BYTES or not data.startswith(_MAGIC):
        raise _damaged(number)
    _, version, stored_number, epoch, first_position, count, _, *sizes = _FIELDS.unpack_from(data)
    head_crc, records_bytes, hot = sizes
    check_format(f"the format of append {number}", version, _FORMAT_VERSION)
    (crc,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if crc != crc32(data[: _FIELDS.size]) or stored_number != number:
        raise _damaged(number)
    return AppendHeader(number, epoch, first_position, count, head_crc, records_bytes, hot, crc)


def decode_append(number: int, data: bytes) -> Append:
    """Decode append `number` from its head, which may be followed by more of the object. Raises JournalCorrupt and
    JournalOfAnotherVersion.
    """
    header = decode_header(number, data)
    body = data[OPENING_BYTES : header.head_bytes if header.hot else None]
    if crc32(body) != header.head_crc:
        raise _damaged(number)
    try:
        records = decode_records(body[header.hot * _ENTRY.size :])
    except ValueError as error:
        raise _damaged(number) from error
    if len(records) != header.records:
        raise _damaged(number)
    return Append(header, records, list(_entries(header, body)))


def _entries(header: AppendHeader, body: bytes) -> Iterator[HotEntry]:
    position = header.head_bytes
    for at in range(header.hot):
        lease_id, sequence, size, crc = _ENTRY.unpack_from(body, at * _ENTRY.size)
        yield HotEntry((lease_id, sequence), position, size, crc)
        position += size


def hot_entries(number: int, data: bytes) -> list[HotEntry]:
    """Return the hot segments in the object of append `number`, which this process has encoded."""
    header = decode_header(number, data)
    return list(_entries(header, data[OPENING_BYTES : header.head_bytes]))


def _damaged(number: int) -> JournalCorrupt:
    return JournalCorrupt(
        f"the object {journal_append_key(number)} differs from what was written: restore it from a backup"
    )


def lost(name: str, number: int) -> JournalLoss:
    """Return the error for an acknowledged append that is missing from the bucket."""
    return JournalLoss(
        f"{name}: the object {journal_append_key(number)} is missing, although its "
        "records were acknowledged. Restore it from an earlier version in the bucket, and make sure that no "
        f"lifecycle rule deletes journal/. {REMEDY}"
    )


class Appends:
    """Reads the appends in a bucket, and remembers the positions of the most recently read ones.

    The hot segments of every append read are remembered until `forget_hot` is called.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._marks: deque[Mark] = deque(maxlen=_KEPT_MARKS)
        #: The hot segments of each append that has been read, ordered by number.
        self._hot: dict[int, list[HotEntry]] = {}
        self._forgotten = 0

    @property
    def last_known(self) -> Mark:
        """The last append that has been read."""
        return max(self._marks, default=START)

    def note(self, mark: Mark) -> None:
        self._marks.append(mark)

    def forget(self) -> None:
        """Forget everything, since the bucket may have been replaced, or restored to an earlier time."""
        self._marks.clear()
        self._hot.clear()

    def forget_hot(self, up_to: int) -> None:
        if up_to != self._forgotten:
            self._forgotten = up_to
            self._hot = {number: hot for number, hot in self._hot.items() if number > up_to}

    def known_hot(self, after: int) -> list[int]:
        """Return the numbers of the appends after number `after` whose hot segments are remembered."""
        return sorted(number for number in self._hot if number > after)

    async def hot_of(self, numbers: Sequence[int]) -> Mapping[int, list[HotEntry]]:
        """Return the hot segments of appends, reading the heads of those that have not been read before. Raises
        JournalCorrupt.
        """
        unknown = [number for number in numbers if number not in self._hot]
        for at in range(0, len(unknown), READ_THREADS):
            some = unknown[at : at + READ_THREADS]
            for number, append in zip(
                some, await asyncio.gather(*map(self.read_head, some)), strict=True
            ):
                self._hot[number] = [] if append is None else append.hot
        return {number: self._hot[number] for number in numbers}

    async def batches(
        self,
        after_position: int,
        seal: Seal | None = None,
        *,
        until: int | None = None,
        seen: Manifest | None = None,
    ) -> AsyncIterator[JournalBatch]:
        """Yield the durable batches after `after_position`; `until` and `seen` are as in `follow`.

        `seal` is checked before the first batch. Raises JournalTrimmed, JournalReplaced and JournalCorrupt.
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
            # An append that does not follow the last one may follow one that has replaced it.
            if seal is not None:
                await self.check(seal)
            raise

    async def check(self, seal: Seal) -> None:
        """Raise JournalReplaced unless the append with this seal exists. Makes one small request."""
        header = await self.header_of(seal.place)
        if header is None or header.seal != seal:
            self.forget()
            raise JournalReplaced(
                f"{self._bucket.name}: {journal_append_key(seal.place)} is no longer the append that was read, as "
                "happens after a restore to an earlier time: the journal is read again "
                "from its newest snapshot"
            )

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        """Return whether a snapshot fits the journal, or why not, as `JournalReader.fit` does. Makes one or two small
        requests.
        """
        header = await self.header_of(seal.place)
        if header is not None:
            return Fit.FITS if header.seal == seal else Fit.BESIDE
        manifest = await load_manifest(self._bucket)
        trimmed = START if manifest is None else manifest.trimmed
        # A trim keeps the last append of any snapshot that may still be loaded.
        is_spent = position <= trimmed.position or seal.place <= trimmed.number
        return Fit.SPENT if is_spent else Fit.AHEAD

    async def _before(self, position: int, manifest: Manifest) -> Mark:
        """Return a mark shortly before `position`, from which to read the records after it."""
        if position < manifest.trimmed.position:
            raise self._trimmed(position + 1)
        if position < manifest.last.position:
            return await self.last_before(position, manifest.trimmed, manifest.last, within=_AHEAD)
        return max([manifest.last, *(mark for mark in self._marks if mark.position <= position)])

    async def follow(
        self, after: Mark, *, until: int | None = None, seen: Manifest | None = None
    ) -> AsyncIterator[Append]:
        """Yield the appends after a mark, up to the end, or up to number `until` if all appends up to it are known to
        exist.

        The journal ends before the first missing append that is unknown to the manifest, both to `seen`, an earlier
        version of it, and to the current version. At first, the number of concurrent reads is the number of appends
        that are known to exist, or one if there are none; it doubles after each append, up to `_AHEAD`. Raises
        JournalTrimmed, JournalLoss and JournalCorrupt.
        """
        epoch = 0
        known = max(self._marks, default=after).number if until is None else until
        width = min(max(1, known - after.number), _AHEAD)
        reads: deque[asyncio.Task[Append | None]] = deque()
        number = after.number
        try:
            while until is None or after.number < until:
                while len(reads) < width and number != until:
                    number += 1
                    reads.append(asyncio.create_task(self.read_head(number)))
                append = await reads.popleft()
                if append is None:
                    if await self._is_end(after.number + 1, until, seen):
                        return
                    _drop(reads)
                    number = after.number
                    continue
                header = append.header
                if header.first_position != after.position + 1 or header.epoch < epoch:
                    raise await self._why_out_of_order(header.number)
                epoch, after = header.epoch, header.mark
                self.note(after)
                self._hot[after.number] = append.hot
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

    async def pages(self, after_number: int) -> AsyncIterator[list[tuple[int, int]]]:
        """Yield pages with the number of each append after `after_number`, and the size of its object in bytes."""
        while True:
            after_key = journal_append_key(after_number)
            listed = await self._bucket.list(JOURNAL_APPENDS_PREFIX, after_key)
            page: list[tuple[int, int]] = []
            for info in listed:
                with suppress(InvalidPathError):
                    page.append((parse_journal_append_key(info.key), info.size))
            if page:
                yield page
                after_number = page[-1][0]
            if not page or len(listed) < LISTED_AT_ONCE:
                return

    async def header_of(self, number: int) -> AppendHeader | None:
        """Return the header of an append, or None if it does not exist. Raises JournalCorrupt."""
        data = await self._bucket.read_beginning(journal_append_key(number), OPENING_BYTES)
        return None if data is None else decode_header(number, data)

    async def read_head(self, number: int) -> Append | None:
        """Return an append without its hot segments' bytes, or None if it does not exist. Raises JournalCorrupt."""
        key = journal_append_key(number)
        data = await self._bucket.read_beginning(key, _HEAD_BYTES)
        if data is not None and len(data) == _HEAD_BYTES:
            rest = decode_header(number, data).head_bytes
            if rest > len(data):
                data = await self._bucket.read_beginning(key, rest)
        return None if data is None else decode_append(number, data)

    async def _mark_of(self, number: int) -> Mark:
        header = await self.header_of(number)
        if header is None:
            manifest = await load_manifest(self._bucket)
            raise self._why_missing(number, manifest)
        self.note(header.mark)
        return header.mark

    async def _is_end(self, number: int, until: int | None, seen: Manifest | None) -> bool:
        """Return whether the journal ends before append `number`, which was missing when read but may exist by now.

        Raises JournalTrimmed if it was deleted because a snapshot covers it, and JournalLoss if it was acknowledged.
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
        """Return the error for a missing append. The manifest was read after the append was found missing."""
        if manifest is not None and number <= manifest.trimmed.number:
            return self._trimmed_append(number)
        return lost(self._bucket.name, number)

    async def _why_out_of_order(self, number: int) -> JournalError:
        """Return the error for an append that does not follow the one before it. During a deletion, a late opening may
        lie between the remaining appends.
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


def _drop(reads: "deque[asyncio.Task[Append | None]]") -> None:
    while reads:
        read = reads.popleft()
        read.add_done_callback(_ignore)
        read.cancel()


def _ignore(read: "asyncio.Task[Append | None]") -> None:
    """Retrieve the error of an abandoned read, so that asyncio does not log it."""
    if not read.cancelled():
        read.exception()
