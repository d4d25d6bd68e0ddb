"""Hot segments in a bucket, where they are part of their appends' objects. Each object is kept until all of its
segments have been dropped.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

from lacuna.controlplane.journal.bucket_appends import Appends, HotEntry
from lacuna.controlplane.journal.bucket_calls import READ_THREADS, Bucket
from lacuna.controlplane.journal.hot_segments import check_hot
from lacuna.controlplane.journal.journal import HotKey
from lacuna.logstore.segments.paths import journal_append_key


class HotAppends:
    """The live hot segments, as the journal's leader tracks them.

    Once a leader has recorded `moved` in the manifest, the next leader does not search the appends up to that number.
    """

    def __init__(self, bucket: Bucket, appends: Appends) -> None:
        self._bucket = bucket
        self._appends = appends
        #: The size of every live segment.
        self.sizes: dict[HotKey, int] = {}
        #: No segment in the appends up to this number is live.
        self.moved = 0
        self._places: dict[HotKey, tuple[int, HotEntry]] = {}
        #: The number of live segments in each append that has any, ordered by append. An OrderedDict, since a plain
        #: dict would search for its first entry past all deleted ones.
        self._live: OrderedDict[int, int] = OrderedDict()

    async def open(self, listed: Sequence[int], moved: int, last: int) -> None:
        """Find the hot segments in the appends after `moved`, up to `last`.

        `listed` are the appends that existed at the takeover; later ones have already been read. Raises JournalCorrupt
        and JournalUnreachable.
        """
        self.sizes, self._places, self._live, self.moved = {}, {}, OrderedDict(), moved
        begin = max(listed, default=moved)
        numbers = [*listed, *self._appends.known_hot(begin)]
        for number, entries in (await self._appends.hot_of(numbers)).items():
            self._add(number, entries)
        self._appends.forget_hot(last)
        self._move(last)

    def note(self, number: int, entries: Sequence[HotEntry]) -> None:
        """Record that the append with these segments, if any, is durable."""
        self._add(number, entries)
        self._move(number)

    def _add(self, number: int, entries: Sequence[HotEntry]) -> None:
        for entry in entries:
            self.sizes[entry.key] = entry.size
            self._places[entry.key] = (number, entry)
        if entries:
            self._live[number] = len(entries)

    def _move(self, last: int) -> None:
        """Advance `moved` to just before the first append with a live segment, or to `last` if there is none."""
        self.moved = next(iter(self._live)) - 1 if self._live else last

    def is_live(self, number: int) -> bool:
        return number in self._live

    async def read(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of the live segments, with one request per append. Raises JournalCorrupt and
        JournalUnreachable.
        """
        wanted: dict[int, list[HotEntry]] = {}
        for key in keys:
            if key in self._places:
                number, entry = self._places[key]
                wanted.setdefault(number, []).append(entry)
        found: dict[HotKey, bytes] = {}
        reads = list(wanted.items())
        for at in range(0, len(reads), READ_THREADS):
            some = reads[at : at + READ_THREADS]
            for each in await asyncio.gather(*(self._read(*read) for read in some)):
                found.update(each)
        return found

    async def _read(self, number: int, entries: Sequence[HotEntry]) -> Mapping[HotKey, bytes]:
        begin = min(entry.position for entry in entries)
        end = max(entry.position + entry.size for entry in entries)
        data = await self._bucket.read_range(journal_append_key(number), begin, end - begin)
        if data is None:
            return {}
        found: dict[HotKey, bytes] = {}
        for entry in entries:
            at = entry.position - begin
            found[entry.key] = check_hot(
                self._bucket.name, entry.key, data[at : at + entry.size], entry.crc
            )
        return found

    def drop(self, keys: Collection[HotKey], last: int) -> list[int]:
        """Forget segments, and return the appends up to `last` that are left without live ones."""
        dead: list[int] = []
        for key in keys:
            if self.sizes.pop(key, None) is None:
                continue
            number, _ = self._places.pop(key)
            self._live[number] -= 1
            if not self._live[number]:
                del self._live[number]
                dead.append(number)
        self._move(last)
        return dead
