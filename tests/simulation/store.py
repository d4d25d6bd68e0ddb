"""A bucket on the simulated network: requests that fail, are lost, arrive late, or return damaged bytes.

The executor models latency (tests/simulation/loop.py), and this module models the other faults of a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from lacuna.logstore.objects import MemoryStore, VersionedObject
from lacuna.logstore.objects.store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    Part,
    RangeRead,
    StoreMisconfiguredError,
    StoreUnavailableError,
    WritableBuffer,
    get_each,
)
from lacuna.logstore.segments.paths import JOURNAL_PREFIX
from tests.simulation.loop import Held, Process, SimulatedLoop

T = TypeVar("T")

#: A put that was told to have failed takes place so much later at most. The grace of collection, 8 s of the control
#: plane's time, may be over after 4 s (adr/0025), and a job may write for a moment after its lease has ended.
LATEST_SECONDS: Final = 3.0
#: When the store's client makes a second attempt at a request that is not answered, and when a request times out.
SECOND_ATTEMPT_SECONDS: Final = 1.0
TIMEOUT_SECONDS: Final = 30.0
#: In `Bucket.damaged`: the object is missing.
MISSING: Final = -1


@dataclass(slots=True)
class StoreWeather:
    """The probability of each fault, from 0 to 1."""

    #: Nothing is done, and the caller is told so.
    refuses: float = 0.0
    #: It is done, and the caller is told that it failed.
    loses_replies: float = 0.0
    #: Nothing is done, since the credentials are not accepted (403).
    forbids: float = 0.0
    #: A request leaves over a connection on which no answer ever comes.
    silences: float = 0.0
    #: A conditional put is answered 409: nothing is done, since another one is under way.
    conflicts: float = 0.0
    #: A request of the journal waits for up to some seconds.
    stalls: float = 0.0
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
        #: Objects that are missing (`MISSING`), or have a wrong byte at this position, modulo their size.
        self.damaged: dict[str, int] = {}
        #: All that ever were in `damaged`: a reader may learn of it when the object is restored already.
        self.was_damaged: set[str] = set()
        #: What to call, once, when a process's next put has been done.
        self.when_put: dict[str, Callable[[], None]] = {}
        #: How many reads had a wrong bit.
        self.flips = 0
        #: Of a store that does not sync: (process, when, key) of each put.
        self.unsynced: list[tuple[str, float, str]] = []

    def lose_power(self, name: str) -> None:
        """Lose what this machine has put in the last second, if the store does not sync."""
        since = self.loop.time() - 1.0
        self.objects.delete(key for who, at, key in self.unsynced if who == name and at > since)


class SimulatedStore:
    """One process's client of the bucket (a `ConditionalStore`)."""

    read_gap = 0
    reads_at_once = 1
    is_synced = True
    makes_second_attempts = True

    def __init__(self, bucket: Bucket, process: Process) -> None:
        self._bucket = bucket
        self._process = process
        self._objects = bucket.objects
        self.metrics = bucket.objects.metrics

    def check(self) -> None:
        """Do nothing: the bucket exists."""

    def put(self, key: str, parts: Sequence[Part]) -> None:
        payload = b"".join(parts)
        try:
            self._write(key, lambda: self._objects.put(key, [payload]))
        except ObjectExistsError:
            if self._objects.get_all(key) != payload:
                raise  # else a first attempt was not answered

    def create(self, key: str, data: bytes) -> str:
        return self._write_if(key, lambda: self._objects.create(key, data))

    def replace(self, key: str, data: bytes, etag: str) -> str:
        return self._write_if(key, lambda: self._objects.replace(key, data, etag))

    def _write_if(self, key: str, request: Callable[[], str]) -> str:
        weather = self._bucket.weather
        if weather.conflicts and self._bucket.random.random() < weather.conflicts:
            raise StoreUnavailableError("another request for the object is under way (409)")
        return self._write(key, request)

    def _write(self, key: str, request: Callable[[], T]) -> T:
        """Execute a request that writes an object, whatever its caller learns."""
        bucket = self._bucket
        loop, weather, draw = bucket.loop, bucket.weather, bucket.random.random
        self._ask(key, request)
        if weather.puts_late and draw() < weather.puts_late:
            loop.call_in(loop.world, LATEST_SECONDS * draw() ** 3, _done_late, request)
            raise StoreUnavailableError("the request timed out")
        answer = request()
        if self._process.name in bucket.when_put:
            loop.call_in(loop.world, 0.0, bucket.when_put[self._process.name])
        if not self.is_synced:
            bucket.unsynced.append((self._process.name, loop.time(), key))
        if weather.loses_replies and draw() < weather.loses_replies:
            raise StoreUnavailableError("the connection broke before the reply")
        return answer

    def load(self, key: str) -> VersionedObject:
        self._ask(key)
        found = self._objects.load(key)
        return VersionedObject(bytes(self._as_read(key, 0, bytearray(found.data))), found.etag)

    def get(self, key: str, position: int, size: int) -> bytearray:
        self._ask(key)
        return self._as_read(key, position, self._objects.get(key, position, size))

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        self._ask(key)
        return self._as_read(key, position, self._objects.get_up_to(key, position, size))

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        return get_each(self, reads, buffer)

    def get_all(self, key: str) -> bytearray:
        self._ask(key)
        return self._as_read(key, 0, self._objects.get_all(key))

    def size(self, key: str) -> int:
        self._ask(key)
        return self._objects.size(key)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        self._ask(prefix)
        return self._objects.list(prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        self._ask("")
        self._objects.delete(keys)
        weather = self._bucket.weather
        if weather.loses_replies and self._bucket.random.random() < weather.loses_replies:
            raise StoreUnavailableError("the connection broke before the reply")

    def close(self) -> None:
        """Do nothing: there are no connections to close."""

    def _ask(self, key: str, late: Callable[[], object] | None = None) -> None:
        """Request the object. `late` does what a request does that arrives but is not answered."""
        bucket = self._bucket
        weather, draw = bucket.weather, bucket.random.random
        if self._process.name in bucket.unreachable:
            raise StoreUnavailableError("the store cannot be reached")
        if weather.refuses and draw() < weather.refuses:
            raise StoreUnavailableError("the store is overloaded")
        if weather.forbids and draw() < weather.forbids:
            raise StoreMisconfiguredError("the store refuses the credentials")
        if weather.silences and draw() < weather.silences:
            if late is not None and draw() < 0.5:
                bucket.loop.call_in(bucket.loop.world, LATEST_SECONDS * draw(), _done_late, late)
            _hold(bucket, SECOND_ATTEMPT_SECONDS if self.makes_second_attempts else TIMEOUT_SECONDS)
        if weather.stalls and key.startswith(JOURNAL_PREFIX) and draw() < weather.stalls:
            _hold(bucket, 3.0 * draw() ** 2)

    def _as_read(self, key: str, position: int, data: bytearray) -> bytearray:
        weather, draw = self._bucket.weather, self._bucket.random.random
        damage = self._bucket.damaged.get(key)
        if damage == MISSING:
            raise ObjectNotFoundError(key)
        if damage is not None:
            at = damage % self._objects.size(key) - position
            if 0 <= at < len(data):
                data[at] ^= 1
        if weather.cuts and draw() < weather.cuts:
            raise StoreUnavailableError("the connection broke in the middle of the answer")
        if data and weather.flips and draw() < weather.flips:
            self._bucket.flips += 1
            data[int(draw() * len(data))] ^= 1 << int(draw() * 8)
        return data


def _hold(bucket: Bucket, seconds: float) -> NoReturn:
    """Make the thread's work wait, start over, and possibly wait again. The work must allow this."""
    held = Held()
    bucket.loop.call_in(bucket.loop.world, seconds, lambda: held.released())
    raise held


def _done_late(request: Callable[[], object]) -> None:
    """Execute a request for which no caller is waiting. It does nothing if a later attempt was faster."""
    with suppress(ObjectStoreError):
        request()
