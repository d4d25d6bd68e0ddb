"""Finds segments written after the journal's end, which prove that the journal's real end has been lost.

A lease is written to the journal before its holder receives it, so an object under a lease that the journal lacks
proves that the journal was once longer. In addition, each segment contains the position up to which its writer knew
that the journal was durable. Only the newest objects are examined: those after each lease's last segment in the
journal, and those under the next few lease ids. Hot segments are found through the copies that agents and jobs
occasionally upload.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lacuna.logstore.objects import ObjectInfo, ObjectNotFoundError, ObjectStore
from lacuna.logstore.segments.hot import HOT, hot_lease, lease_of
from lacuna.logstore.segments.layout import CorruptSegmentError
from lacuna.logstore.segments.paths import (
    InvalidPathError,
    SegmentId,
    lease_prefix,
    parse_segment_key,
    segment_key,
)
from lacuna.logstore.segments.reader import open_segment

#: How many lease ids after the last one are examined. This many consecutive leases may have written nothing.
_LEASES_AHEAD: Final = 16
#: At most one page is listed for each lease, and the last few segments on that page are read.
_MOST_LISTED: Final = 1000
_MOST_READ: Final = 3
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class LaterSegment:
    """A segment written after the journal's end, when the journal was durable up to `journal_position` (0 if unknown).

    `segment_id` contains the lease's own id, even for a hot segment.
    """

    key: str
    segment_id: SegmentId
    journal_position: int


@dataclass(frozen=True, slots=True)
class JournalEnd:
    """A journal's end: its position, the next lease id, and the last sequence of each lease in the journal."""

    position: int
    next_lease_id: int
    last_sequences: Mapping[int, int]

    def is_before(self, found: LaterSegment) -> bool:
        """Whether the segment proves that the journal once continued beyond this end."""
        return (
            found.segment_id.lease_id >= self.next_lease_id
            or found.journal_position > self.position
        )


def find_later(store: ObjectStore, cluster_id: str, end: JournalEnd) -> LaterSegment | None:
    """Return the newest segment that proves the journal to be longer than `end`, or None. Raises the store's errors.

    This takes, for each lease, two listings of at most one page and a few reads.
    """
    ahead = range(end.next_lease_id, min(end.next_lease_id + _LEASES_AHEAD, HOT))
    leases = {**end.last_sequences, **dict.fromkeys(ahead, 0)}
    asked = [
        (writer, after) for each, after in leases.items() for writer in (each, hot_lease(each))
    ]

    def look(where: tuple[int, int]) -> list[LaterSegment]:
        newest = _newest(store, cluster_id, *where)
        return [found for found in newest if end.is_before(found)]

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="later") as executor:
        found = [each for some in executor.map(look, asked) for each in some]
    return max(found, key=_age, default=None)


def _age(found: LaterSegment) -> tuple[int, SegmentId]:
    return found.journal_position, found.segment_id


def _newest(
    store: ObjectStore, cluster_id: str, lease_id: int, after: int
) -> Iterator[LaterSegment]:
    """Yield the last few segments under a lease id with a sequence above `after`."""
    listed = store.list(
        lease_prefix(cluster_id, lease_id), segment_key(cluster_id, SegmentId(lease_id, after))
    )
    for info in list(islice(listed, _MOST_LISTED))[-_MOST_READ:]:
        with suppress(InvalidPathError, ObjectNotFoundError):
            _, found = parse_segment_key(info.key)
            segment_id = SegmentId(lease_of(found.lease_id), found.sequence)
            yield LaterSegment(info.key, segment_id, _position_in(store, info))


def _position_in(store: ObjectStore, info: ObjectInfo) -> int:
    try:
        return open_segment(store, info.key, info.size).journal_position
    except CorruptSegmentError:
        return 0
