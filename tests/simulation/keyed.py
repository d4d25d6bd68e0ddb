"""Producers and readers of topics that are compacted by key, and their invariants.

Each producer has its own keys, so the writes to a key are in order. A reader that begins after a write to a key was
acknowledged finds that write or a later one as the last, or nothing if that is a tombstone, but never an older value.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lacuna.logstore.records.batch import Record
from tests.clients.batch import Rec
from tests.simulation.consumers import Consumer
from tests.simulation.history import History, Place, Read, Transaction
from tests.simulation.kafka import Client, KafkaError, Unanswered
from tests.simulation.producers import IdempotentProducer, Producer, TransactionalProducer

TOPIC: Final = "keyed"
#: How long a tombstone stays: short, so that some are dropped.
TOMBSTONE_SECONDS: Final = 0.5
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": f"{TOMBSTONE_SECONDS * 1000:.0f}",
}
#: How many keys a producer uses at a time, and after how many records it gives the oldest up: what is deleted stays so.
KEYS: Final = 3
RECORDS_A_KEY: Final = 8
TOMBSTONES: Final = 0.25


@dataclass(frozen=True, slots=True)
class Write:
    """A value for a key, or a tombstone."""

    value: bytes
    is_tombstone: bool
    transaction: Transaction | None


Key = tuple[Place, bytes]


class Keys:
    """The writes to every key, in order."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._writes: dict[Key, list[Write]] = {}
        self._number_of: dict[bytes, int] = {}
        #: Offsets that a read from the start passed over: they were removed, or aborted, and never come back.
        self.gone: dict[Place, frozenset[int]] = {}

    def wrote(self, place: Place, key: bytes, write: Write) -> None:
        """A producer is about to send a write."""
        writes = self._writes.setdefault((place, key), [])
        self._number_of[write.value] = len(writes)
        writes.append(write)

    def certain(self, place: Place) -> dict[bytes, list[tuple[int, int]]]:
        """Return the writes to each key, as (number, offset), that readers must find from now on if they get so far."""
        found: dict[bytes, list[tuple[int, int]]] = {}
        for (where, key), writes in self._writes.items():
            if where == place:
                found[key] = []
                for number, each in enumerate(writes):
                    offset = self._history.offset_of(place, each.value)
                    is_open = each.transaction is not None and not each.transaction.is_committed
                    if offset is not None and not is_open:
                        found[key].append((number, offset))
        return found

    def check(
        self,
        who: str,
        place: Place,
        certain: dict[bytes, list[tuple[int, int]]],
        end: int,
        last: dict[bytes, bytes | None],
        seconds: float,
    ) -> None:
        """Compare the last value of each key (None for a tombstone) below `end` with the earlier result of `certain`.

        A tombstone is kept for TOMBSTONE_SECONDS after the compaction that removed what it deletes. A slower reader may
        have read the deleted value but not the tombstone.
        """
        for key, writes in certain.items():
            newest = max((number for number, offset in writes if offset < end), default=-1)
            value = last.get(key)
            number = newest if value is None else self._number_of.get(value, newest)
            is_deleted = seconds > TOMBSTONE_SECONDS and self._may_be_deleted(
                place, key, number + 1
            )
            if number < newest and not is_deleted:
                self._history.wrong(
                    f"{who} finds {value!r} last of {key!r} in {place}, and write {newest} came later"
                )
            if value is None and newest >= 0 and not self._may_be_deleted(place, key, newest):
                self._history.wrong(f"{who} finds no {key!r} in {place}: write {newest} is lost")

    def _may_be_deleted(self, place: Place, key: bytes, number: int) -> bool:
        """Return whether this write or a later one is a tombstone that readers may have seen."""
        return any(
            each.is_tombstone and (each.transaction is None or each.transaction.may_commit)
            for each in self._writes[place, key][number:]
        )


class _KeyedProducer(Producer):
    """Gives each record one of a few keys. Some records are tombstones."""

    keys: Keys
    _records = 0

    def record(self, place: Place, value: bytes) -> Rec:
        self._records += 1
        number = self._records // RECORDS_A_KEY + self.random.randrange(KEYS)
        key = b"%s/%d" % (self.name.encode(), number)
        is_tombstone = self.random.random() < TOMBSTONES
        self.keys.wrote(place, key, Write(value, is_tombstone, self.transaction))
        return Rec(key=key, value=None if is_tombstone else value)


class KeyedTransactionalProducer(_KeyedProducer, TransactionalProducer):
    """Runs transactions on keyed topics."""


class KeyedIdempotentProducer(_KeyedProducer, IdempotentProducer):
    """Writes to keyed topics outside of transactions."""


class KeyedConsumer(Consumer):
    """Repeatedly reads keyed topics from the start, as a client that restores its state does."""

    def __init__(
        self, name: str, client: Client, history: History, randomness: random.Random, keys: Keys
    ) -> None:
        super().__init__(name, client, history, randomness, isolation=1)
        self._keys = keys
        self._last: dict[bytes, bytes | None] = {}
        self._seen: set[int] = set()

    async def run(self, places: Sequence[Place]) -> None:
        """Read forever."""
        while True:
            for place in places:
                try:
                    await self.read_keys(place)
                    self.client.served()
                except Unanswered:
                    await self.client.pause()
                except KafkaError as error:
                    self.history.wrong(f"{self.name} could not read {place}: {error}")
            await asyncio.sleep(1.0 + 2.0 * self.random.random())

    async def read_keys(self, place: Place) -> Read:
        """Read a partition and check its keys. Raises Unanswered, KafkaError."""
        certain = self._keys.certain(place)
        gone = self._keys.gone.get(place, frozenset())
        self._last.clear()
        self._seen.clear()
        began = self.history.now()
        read = await self.read_all(place)
        took = self.history.now() - began
        self._keys.check(self.name, place, certain, read.position, self._last, took)
        if back := gone & self._seen:
            self.history.wrong(
                f"{self.name} got offset {min(back)} of {place}, which an earlier read had passed over"
            )
        passed = frozenset(range(read.start, read.position)) - self._seen
        self._keys.gone[place] = self._keys.gone.get(place, frozenset()) | passed
        return read

    def saw(self, place: Place, read: Read, record: Record) -> None:
        assert record.key is not None
        self._seen.add(record.offset)
        self._last[bytes(record.key)] = None if record.value is None else bytes(record.value)
        if record.value is not None:
            super().saw(place, read, record)


async def read_at_the_end(client: Client, history: History, keys: Keys, places: Any) -> None:
    """Read all keyed topics once more, retrying until this succeeds."""
    consumer = KeyedConsumer("the last keyed reader", client, history, client.random, keys)
    for place in places:
        while True:
            try:
                await consumer.read_keys(place)
                break
            except Unanswered:
                await client.pause()
