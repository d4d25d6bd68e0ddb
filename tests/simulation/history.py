"""Collects what the clients of a simulation wrote, received and read, and reports contradictions.

Every value is written once, so a value identifies its write. A topic's records are kept under its id: a topic that is
deleted and recreated is a different topic.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

Place: TypeAlias = tuple[str, int]
"""A topic and a partition. The topic is its name, or "name/id" where names are used again."""

EARLIEST: Final = -2
LATEST: Final = -1


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction as its producer knows it."""

    name: str
    #: Values by place, in the order of their sequences. Only what was sent at least once.
    values: dict[Place, list[bytes]] = field(default_factory=dict)
    #: Whether EndTxn was sent to commit. Before that, it must never become visible.
    may_commit: bool = False
    is_committed: bool = False
    #: Who aborted it from outside, and knows that this was done.
    aborted_by: str = ""
    #: Who saw one of its values as committed.
    seen_by: str = ""

    @property
    def outcome(self) -> str:
        """Return the outcome for the summary."""
        if self.is_committed:
            return "committed"
        return "unknown" if self.may_commit else "aborted"


@dataclass
class Read:
    """The (offset, value) pairs that one reader got from one partition, from `start` up to `position`."""

    start: int
    position: int
    rows: list[tuple[int, bytes]] = field(default_factory=list)

    @cached_property
    def index(self) -> frozenset[tuple[int, bytes]]:
        """Return the rows for lookups. Call it after reading has ended."""
        return frozenset(self.rows)

    @cached_property
    def values(self) -> frozenset[bytes]:
        """Return the values for lookups. Call it after reading has ended."""
        return frozenset(value for _, value in self.rows)


class History:
    """Collects facts during the simulation, and records a contradiction as soon as it occurs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        #: When which end of a log was acknowledged, in order of time.
        self._ends: dict[Place, list[tuple[float, int]]] = {}
        self.violations: list[str] = []
        #: When an earlier leader answered last although a later one led.
        self._stale_until = -math.inf
        #: Whether the last fault has ended. Then admins abort no transactions: those of slow clients are always open.
        self.is_over = False
        self.transactions: list[Transaction] = []
        #: (place, offset, value) of what was acknowledged outside of transactions.
        self.acknowledged: list[tuple[Place, int, bytes]] = []
        #: (place, offset, value) of what is aborted and must stay readable.
        self.kept: list[tuple[Place, int, bytes]] = []
        self._of_value: dict[bytes, Transaction | None] = {}
        self._placed: dict[tuple[Place, int], bytes] = {}
        #: What a producer gave up that does not number its batches: it may get in at any later time, as on Kafka.
        self._doubtful: set[bytes] = set()
        self.counts: Counter[str] = Counter()
        self._offset_of: dict[tuple[Place, bytes], int] = {}
        self._place_of: dict[bytes, Place] = {}
        #: What was answered for (place, time, isolation), which never goes back.
        self._bounds: dict[tuple[Place, int, int], int] = {}
        #: How far a log was said to reach, by (connection, place, isolation).
        self._told: dict[tuple[object, Place, int], int] = {}
        #: Cuts that somebody was told: who, and the end of each place.
        self._told_cuts: list[tuple[str, Mapping[Place, int]]] = []
        #: How far somebody asked for a log's start to be moved; and topics whose records expire.
        self.cuts: dict[Place, float] = {}
        self.expiring: set[str] = set()
        #: The last transaction of each (producer id, epoch).
        self._transaction_of: dict[tuple[int, int], Transaction] = {}
        #: (producer id, epoch) of producers whose transaction was aborted from outside.
        self.fenced: set[tuple[int, int]] = set()

    def wrong(self, text: str) -> None:
        """Record a violation."""
        if len(self.violations) < 20:
            self.violations.append(text)

    # Told.

    def sent(self, value: bytes, transaction: Transaction | None, place: Place) -> None:
        """Note that a value is being sent for the first time."""
        self._of_value[value] = transaction
        self._place_of[value] = place

    def given(
        self, value: bytes, transaction: Transaction | None, place: Place, offset: int
    ) -> None:
        """Note that a value exists at an offset in another cluster, and may be copied to that offset only."""
        self.sent(value, transaction, place)
        self._place(place, offset, value, "another cluster")

    def began(self, transaction: Transaction, producer_id: int, epoch: int) -> None:
        """Note that a producer begins a transaction."""
        self.transactions.append(transaction)
        self._transaction_of[producer_id, epoch] = transaction

    def committed(self, transaction: Transaction) -> None:
        """Note that a producer has learned that its transaction is committed."""
        transaction.is_committed = True
        self._check_abort(transaction)

    def aborted(self, who: str, producer_id: int, epoch: int) -> None:
        """Note that an admin learned that it aborted a producer's open transaction, which also fences the producer."""
        self.counts["transactions aborted from outside"] += 1
        self.fenced.add((producer_id, epoch))
        transaction = self._transaction_of.get((producer_id, epoch))
        if transaction is not None:
            transaction.aborted_by = who
            self._check_abort(transaction)

    def _check_abort(self, transaction: Transaction) -> None:
        if transaction.aborted_by and (transaction.is_committed or transaction.seen_by):
            self.wrong(
                f"{transaction.name} was aborted by {transaction.aborted_by}, and it is committed"
            )

    def acknowledge(
        self, place: Place, offset: int, value: bytes, *, is_in_transaction: bool
    ) -> None:
        """Note that a produce was answered with the offset of this value."""
        self.counts["records acknowledged"] += 1
        self._place(place, offset, value, "its producer")
        self._raise_bound((place, LATEST, 0), offset + 1)
        self._ends.setdefault(place, []).append((self.now(), offset + 1))
        if not is_in_transaction:
            self.acknowledged.append((place, offset, value))

    def doubt(self, values: Iterable[bytes]) -> None:
        """Note that a producer without an id stopped waiting for these answers."""
        self._doubtful.update(values)

    # Read.

    def saw(self, who: str, place: Place, offset: int, value: bytes, *, is_committed: bool) -> None:
        """Check a record that a reader got. `is_committed` means that it reads only committed records."""
        self.counts["records read"] += 1
        self._place(place, offset, value, who)
        if value not in self._of_value:
            self.wrong(f"{who} got {value!r} at {_at(place, offset)}, which nobody has sent")
            return
        transaction = self._of_value[value]
        if transaction is None or not is_committed:
            return
        transaction.seen_by = transaction.seen_by or who
        self._check_abort(transaction)
        if not transaction.may_commit:
            self.wrong(
                f"{who} got {value!r} at {_at(place, offset)}, of {transaction.name}, which was never committed"
            )

    def _place(self, place: Place, offset: int, value: bytes, who: str) -> None:
        known = self._placed.setdefault((place, offset), value)
        self._offset_of[place, value] = offset
        if known != value:
            self.wrong(f"{who} got {value!r} at {_at(place, offset)}, where {known!r} was before")
        if self._place_of.get(value, place) != place:
            self.wrong(
                f"{who} got {value!r} at {_at(place, offset)}, and it was sent to {self._place_of[value]}"
            )

    def offset_of(self, place: Place, value: bytes) -> int | None:
        """Return the offset at which a value was acknowledged or read, if any."""
        return self._offset_of.get((place, value))

    # Bounds of logs.

    def two_led(self) -> None:
        """Note that an earlier leader answers while a later one already leads, whose answers it may not know."""
        self.counts["answers while two led"] += 1
        self._stale_until = self.now()

    def may_be_stale(self, since: float) -> bool:
        """Return whether an outdated answer to a request sent at `since` may come from an earlier leader."""
        is_excused = since <= self._stale_until
        self.counts["stale answers while two led"] += is_excused
        return is_excused

    def not_older(self, who: str, place: Place, end: int, since: float) -> None:
        """Check the end that a fetch got from an agent that must know everything acknowledged before `since`."""
        ends = self._ends.get(place, [])
        known = bisect_left(ends, (since, 0))
        if known and ends[known - 1][1] > end and not self.may_be_stale(since):
            when, before = ends[known - 1]
            self.wrong(
                f"{who} was told that {place} ends at {end} by an agent that had to know all since {since:.3f} s; "
                f"{before} had been acknowledged at {when:.3f} s"
            )

    def bound(self, place: Place, time: int, isolation: int = 0) -> int:
        """Return an offset below which the start or end of a log can no longer be."""
        return self._bounds.get((place, time, isolation), 0)

    def bounded(
        self,
        who: str,
        place: Place,
        time: int,
        isolation: int,
        offset: int,
        before: int,
        since: float,
    ) -> None:
        """Check the start or end of a log that was requested at `since`, when it was at least `before`."""
        self._raise_bound((place, time, isolation), offset)
        if offset < before and not self.may_be_stale(since):
            what = "starts" if time == EARLIEST else f"ends at isolation {isolation}"
            self.wrong(
                f"{who} is told that {place} {what} at {offset}, and {before} was known before"
            )

    def told(self, who: str, over: object, place: Place, isolation: int, end: int) -> None:
        """Check that the log ends that one agent reports over a connection never go back, even under two leaders."""
        before = self._told.get((over, place, isolation), 0)
        if end < before:
            self.wrong(
                f"{who} is told that {place} ends at {end}, by an agent that has said {before}"
            )
        self._told[over, place, isolation] = end

    def has_told(self, over: object, place: Place, offset: int) -> bool:
        """Return whether an agent has reported over a connection that a log extends this far."""
        return self._told.get((over, place, 0), 0) >= offset

    def asks_to_cut(self, place: Place, offset: float) -> None:
        """Note a request to delete the records below an offset. Infinity means that only the log knows it."""
        self.cuts[place] = max(self.cuts.get(place, 0), offset)

    def cut(self, place: Place, offset: int) -> None:
        """Note that records below an offset were deleted."""
        self.counts["records deleted"] += 1
        self._raise_bound((place, EARLIEST, 0), offset)

    def _raise_bound(self, key: tuple[Place, int, int], offset: int) -> None:
        if offset > self._bounds.get(key, 0):
            self._bounds[key] = offset

    def told_cut(self, who: str, ends: Mapping[Place, int]) -> None:
        """Note that a client was given ends that split no transaction."""
        self.counts["cuts"] += 1
        self._told_cuts.append((who, ends))

    # At the end.

    def check(self, committed: dict[Place, Read], uncommitted: dict[Place, Read]) -> None:
        """Compare everything with what two readers read from the whole log at the end."""
        for place, read in committed.items():
            self._check_rows(place, read)
            if read.start > self.cuts.get(place, 0) and _name(place) not in self.expiring:
                self.wrong(f"{place} starts at {read.start}, and nobody deleted so much")
        for place, read in uncommitted.items():
            self._check_rows(place, read)
            for offset, value in committed[place].rows:
                if offset >= read.start and (offset, value) not in read.index:
                    self.wrong(
                        f"{value!r} at {_at(place, offset)} is visible to read_committed consumers only"
                    )
        for place, offset, value in self.acknowledged:
            read_there = committed.get(place)
            if read_there is None or offset < read_there.start:
                continue
            if (offset, value) not in read_there.index:
                self.wrong(f"{value!r} was acknowledged at {_at(place, offset)} and is lost")
        self._check_kept(uncommitted)
        for transaction in self.transactions:
            self._check_transaction(transaction, committed)
            self._check_cuts(transaction, committed)

    def _check_kept(self, uncommitted: dict[Place, Read]) -> None:
        for place, offset, value in self.kept:
            if (offset, value) not in uncommitted[place].index:
                self.wrong(f"{value!r} at {_at(place, offset)} is aborted, and is not kept")

    def _check_rows(self, place: Place, read: Read) -> None:
        offsets = [offset for offset, _ in read.rows]
        if any(later <= earlier for earlier, later in itertools.pairwise(offsets)):
            self.wrong(f"the offsets of {place} do not grow")
        for value, count in Counter(value for _, value in read.rows).items():
            if count > 1:
                self.wrong(f"{value!r} is in {place} {count} times")
        last: dict[bytes, int] = {}
        for _, value in read.rows:
            if value in self._doubtful:
                continue
            writer, _, number = value.rpartition(b"@")[2].rpartition(b":")
            if int(number) < last.get(writer, -1):
                self.wrong(
                    f"{value!r} comes after number {last[writer]} of its producer in {place}"
                )
            last[writer] = int(number)

    def _check_transaction(self, transaction: Transaction, committed: dict[Place, Read]) -> None:
        there = missing = 0
        lost = ""
        for place, values in transaction.values.items():
            read = committed.get(place)
            if read is None:
                continue
            for value in values:
                if value in read.values:
                    there += 1
                elif not self._may_be_gone(place, value, read):
                    missing += 1
                    lost = f"{value!r} of {place}"
        if there and not transaction.may_commit:
            self.wrong(f"{transaction.name} was not committed and is visible")
        if transaction.is_committed and missing:
            self.wrong(f"{transaction.name} was committed and {lost} is lost")
        elif there and missing:
            self.wrong(f"{transaction.name} is torn: {lost} is missing")
        elif transaction.seen_by and missing:
            self.wrong(f"{transaction.name} was seen by {transaction.seen_by}, and {lost} is gone")

    def _check_cuts(self, transaction: Transaction, committed: dict[Place, Read]) -> None:
        """Check that no cut splits those records of a visible transaction that are left at the end."""
        places = [
            (place, offset)
            for place, values in transaction.values.items()
            if (read := committed.get(place)) is not None
            for value in values
            if value in read.values and (offset := self._offset_of.get((place, value))) is not None
        ]
        for who, ends in self._told_cuts:
            sides = {offset < ends[place] for place, offset in places if place in ends}
            if len(sides) > 1:
                self.wrong(f"{transaction.name} is split by the cut that {who} was told: {ends}")

    def _may_be_gone(self, place: Place, value: bytes, read: Read) -> bool:
        """Return whether a record may have been before the log's start."""
        if read.start == 0:
            return False
        offset = self._offset_of.get((place, value))
        return offset is None or offset < read.start


def _name(place: Place) -> str:
    return place[0].partition("/")[0]


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]} offset {offset}"
