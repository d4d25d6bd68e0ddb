"""A bucket on the simulated network: requests that fail, get lost, come late, or bring damaged bytes.

Latency is the executor's (tests/simulation/loop.py); here is what may happen to a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.objects.store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectStoreError,
    Part,
    RangeRead,
    StoreUnavailableError,
    get_each,
)
from tests.simulation.loop import Process, SimulatedLoop


@dataclass(slots=True)
class StoreWeather:
    """How likely each fault is, from 0 to 1."""

    #: Nothing is done, and the caller is told so.
    refuses: float = 0.0
    #: It is done, and the caller is told that it failed.
    loses_replies: float = 0.0
    #: A put is told to have failed, and takes place later.
    puts_late: float = 0.0
    #: A read ends before its end.
    cuts: float = 0.0
    #: A bit of what is read is wrong.
    flips: float = 0.0


class Bucket:
    """The objects, and the faults of the service in front of them."""

    def __init__(self, loop: SimulatedLoop, randomness: random.Random) -> None:
        self.loop = loop
        self.random = randomness
        self.weather = StoreWeather()
        self.objects = MemoryStore(lambda: loop.now_ms)
        self.unreachable: set[str] = set()
        #: What to call, once, when a process's next put has been done.
        self.when_put: dict[str, Callable[[], None]] = {}
        #: How many reads had a wrong bit.
        self.flips = 0
        #: Of a store that does not sync: (process, when, key) of each put.
        self.unsynced: list[tuple[str, float, str]] = []

    def lose_power(self, name: str) -> None:
        """Loses what the machine of this process put within the last second, if the store does not sync."""
        since = self.loop.time() - 1.0
        self.objects.delete(key for who, at, key in self.unsynced if who == name and at > since)


class SimulatedStore:
    """One process's client of the bucket (an `ObjectStore`)."""

    read_gap = 0
    reads_at_once = 1
    is_synced = True

    def __init__(self, bucket: Bucket, process: Process) -> None:
        self._bucket = bucket
        self._process = process
        self._objects = bucket.objects
        self.metrics = bucket.objects.metrics

    def check(self) -> None:
        """Does nothing: the bucket is there."""

    def put(self, key: str, parts: Sequence[Part]) -> None:
        weather, draw = self._bucket.weather, self._bucket.random.random
        self._ask()
        payload = [b"".join(parts)]
        if weather.puts_late and draw() < weather.puts_late:
            loop = self._bucket.loop
            loop.call_in(loop.world, 5.0 * draw() ** 3, self._put_late, key, payload)
            raise StoreUnavailableError("the request timed out")
        self._objects.put(key, payload)
        if self._process.name in self._bucket.when_put:
            loop = self._bucket.loop
            loop.call_in(loop.world, 0.0, self._bucket.when_put[self._process.name])
        if not self.is_synced:
            self._bucket.unsynced.append((self._process.name, self._bucket.loop.time(), key))
        if weather.loses_replies and draw() < weather.loses_replies:
            raise StoreUnavailableError("the connection broke before the reply")

    def _put_late(self, key: str, payload: Sequence[Part]) -> None:
        try:
            self._objects.put(key, payload)
        except ObjectExistsError:
            return  # a later try was quicker

    def get(self, key: str, position: int, size: int) -> bytearray:
        self._ask()
        return self._as_read(self._objects.get(key, position, size))

    def get_into(
        self, reads: Sequence[RangeRead], buffer: bytearray
    ) -> list[ObjectStoreError | None]:
        return get_each(self, reads, buffer)

    def get_all(self, key: str) -> bytearray:
        self._ask()
        return self._as_read(self._objects.get_all(key))

    def size(self, key: str) -> int:
        self._ask()
        return self._objects.size(key)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        self._ask()
        return self._objects.list(prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        self._ask()
        self._objects.delete(keys)
        weather = self._bucket.weather
        if weather.loses_replies and self._bucket.random.random() < weather.loses_replies:
            raise StoreUnavailableError("the connection broke before the reply")

    def close(self) -> None:
        """Does nothing: there are no connections to close."""

    def _ask(self) -> None:
        weather = self._bucket.weather
        if self._process.name in self._bucket.unreachable:
            raise StoreUnavailableError("the store cannot be reached")
        if weather.refuses and self._bucket.random.random() < weather.refuses:
            raise StoreUnavailableError("the store is overloaded")

    def _as_read(self, data: bytearray) -> bytearray:
        weather, draw = self._bucket.weather, self._bucket.random.random
        if weather.cuts and draw() < weather.cuts:
            raise StoreUnavailableError("the connection broke in the middle of the answer")
        if data and weather.flips and draw() < weather.flips:
            self._bucket.flips += 1
            data[int(draw() * len(data))] ^= 1 << int(draw() * 8)
        return data
