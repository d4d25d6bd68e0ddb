"""An object store with scripted or random faults, like those of networks and buckets.

    store = FaultyStore(MemoryStore())
    hold = store.hold("put")                              # the next put blocks in its thread
    ...                                                   # start the agent's flush
    hold.wait_until_reached()                             # it is on its way; end the lease now
    hold.release()                                        # and the slow PUT arrives

    store.fail(Fault("put", FaultKind.LOST_REPLY))        # written, but the caller receives an error
    store.fail(Fault("get", FaultKind.FLIPPED_BIT, "c/segments/"))

A scripted fault occurs once, on the first call of its operation on a key that starts with its prefix. Faults for the
same calls occur in the order in which they were scripted. `rates` adds random faults, drawn from the source passed to
the store: the same seed and the same order of calls give the same faults.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Literal, TypeAlias

from lacuna.logstore.objects.store import (
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    Part,
    RangeRead,
    ShortReadError,
    StoreMetrics,
    StoreUnavailableError,
    WritableBuffer,
    delete_each,
    get_each,
)

Operation: TypeAlias = Literal["put", "get", "size", "list", "delete"]
"""`get` includes `get_all`."""

_HOLD_TIMEOUT_S = 60.0


class FaultKind(Enum):
    """The kinds of fault, each with a description of its effect."""

    ERROR = "the operation is not performed, and the caller receives an error"
    LOST_REPLY = "the operation is performed, but the caller receives an error"
    NOT_FOUND = "the caller receives the error for a missing object"
    TRUNCATED = "the object ends in the middle of the requested range"
    FLIPPED_BIT = "one bit of the data read is flipped"


_ANY: tuple[Operation, ...] = ("put", "get", "size", "list", "delete")
_OPERATIONS: Mapping[FaultKind, tuple[Operation, ...]] = {
    FaultKind.ERROR: _ANY,
    FaultKind.LOST_REPLY: _ANY,
    FaultKind.NOT_FOUND: ("get", "size"),
    FaultKind.TRUNCATED: ("get",),
    FaultKind.FLIPPED_BIT: ("get",),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the next `operation` on a key that starts with `prefix`.

    Raises ValueError if this kind of fault cannot occur in that operation.
    """

    operation: Operation
    kind: FaultKind
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.operation not in _OPERATIONS[self.kind]:
            raise ValueError(f"{self.kind} cannot occur in {self.operation}")


class Hold:
    """Blocks calls of one operation until `release` is called. `FaultyStore.hold` creates it."""

    def __init__(self, operation: Operation, prefix: str) -> None:
        self.operation = operation
        self.prefix = prefix
        self._reached = threading.Event()
        self._released = threading.Event()

    def wait_until_reached(self, timeout_s: float = _HOLD_TIMEOUT_S) -> None:
        """Block until a call is held. Raises TimeoutError."""
        if not self._reached.wait(timeout_s):
            raise TimeoutError(f"no {self.operation} under {self.prefix!r} within {timeout_s} s")

    def is_reached(self) -> bool:
        """Whether a call has been held, for callers that must not block."""
        return self._reached.is_set()

    def release(self) -> None:
        """Let held calls continue, and hold no more."""
        self._released.set()

    def is_released(self) -> bool:
        return self._released.is_set()

    def pass_through(self) -> None:
        """Block the calling thread until `release`. Raises TimeoutError, so that no test hangs forever."""
        self._reached.set()
        if not self._released.wait(_HOLD_TIMEOUT_S):
            raise TimeoutError(f"{self.operation} was held for {_HOLD_TIMEOUT_S} s")


class FaultyStore:
    """An `ObjectStore` that adds faults to an inner store, and otherwise behaves like it.

    `rates` maps operations and kinds to the probability (0 to 1) of the fault on each call, drawn from `source`. Raises
    ValueError for `rates` without a `source`.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        source: Random | None = None,
        rates: Mapping[tuple[Operation, FaultKind], float] | None = None,
    ) -> None:
        if rates and source is None:
            raise ValueError("random faults need a seeded source of randomness")
        for operation, kind in rates or {}:
            Fault(operation, kind)
        self.inner = inner
        self._source = source
        self._rates = dict(rates or {})
        self._lock = threading.Lock()
        self._script: list[Fault] = []
        self._holds: list[Hold] = []

    @property
    def read_gap(self) -> int:
        return self.inner.read_gap

    @property
    def reads_at_once(self) -> int:
        return self.inner.reads_at_once

    @property
    def metrics(self) -> StoreMetrics:
        return self.inner.metrics

    def fail(self, *faults: Fault) -> None:
        """Add scripted faults, which occur after those added earlier."""
        with self._lock:
            self._script.extend(faults)

    def pending(self) -> tuple[Fault, ...]:
        """Return the scripted faults that have not yet occurred."""
        with self._lock:
            return tuple(self._script)

    def hold(self, operation: Operation, prefix: str = "") -> Hold:
        """Hold each call of `operation` on a key that starts with `prefix`, before it takes effect, until `release`."""
        hold = Hold(operation, prefix)
        with self._lock:
            self._holds = [other for other in self._holds if not other.is_released()]
            self._holds.append(hold)
        return hold

    def check(self) -> None:
        self.inner.check()

    def put(self, key: str, parts: Sequence[Part]) -> None:
        fault = self._before("put", key)
        self.inner.put(key, parts)
        self._after(fault, "put", key)

    def get(self, key: str, position: int, size: int) -> bytearray:
        fault = self._before("get", key)
        data = self.inner.get(key, position, size)
        self._after(fault, "get", key)
        if fault is FaultKind.TRUNCATED:
            raise ShortReadError(key, position, size, self._draw(size))
        return self._flip(fault, data)

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        return self._get(key, lambda: self.inner.get_up_to(key, position, size))

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        return get_each(self, reads, buffer)

    def get_all(self, key: str) -> bytearray:
        return self._get(key, lambda: self.inner.get_all(key))

    def _get(self, key: str, read: Callable[[], bytearray]) -> bytearray:
        fault = self._before("get", key)
        data = read()
        self._after(fault, "get", key)
        if fault is FaultKind.TRUNCATED:
            return data[: self._draw(len(data))]
        return self._flip(fault, data)

    def size(self, key: str) -> int:
        fault = self._before("size", key)
        size = self.inner.size(key)
        self._after(fault, "size", key)
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        fault = self._before("list", prefix)
        yield from self.inner.list(prefix, start_after)
        self._after(fault, "list", prefix)

    def delete(self, keys: Iterable[str]) -> None:
        delete_each(keys, self._delete)

    def _delete(self, key: str) -> None:
        fault = self._before("delete", key)
        self.inner.delete([key])
        self._after(fault, "delete", key)

    def close(self) -> None:
        self.inner.close()

    def _before(self, operation: Operation, key: str) -> FaultKind | None:
        """Wait for holds. Raise the fault if it occurs before the call, or return it if it occurs after the call."""
        with self._lock:
            holds = [
                hold
                for hold in self._holds
                if hold.operation == operation and key.startswith(hold.prefix)
            ]
        for hold in holds:
            hold.pass_through()
        with self._lock:
            kind = self._take(operation, key)
        if kind is FaultKind.ERROR:
            raise StoreUnavailableError(
                f"{operation} of {key!r} failed, because a test injected this fault"
            )
        if kind is FaultKind.NOT_FOUND:
            raise ObjectNotFoundError(key)
        return kind

    def _after(self, kind: FaultKind | None, operation: Operation, key: str) -> None:
        if kind is FaultKind.LOST_REPLY:
            raise StoreUnavailableError(
                f"the reply to {operation} of {key!r} was lost, because a test injected this fault"
            )

    def _take(self, operation: Operation, key: str) -> FaultKind | None:
        for fault in self._script:
            if fault.operation == operation and key.startswith(fault.prefix):
                self._script.remove(fault)
                return fault.kind
        for (of, kind), rate in self._rates.items():
            if self._source is not None and of == operation and self._source.random() < rate:
                return kind
        return None

    def _draw(self, limit: int) -> int:
        """Return a random integer in [0, `limit`), or the middle one if there is no source."""
        if self._source is None or not limit:
            return limit // 2
        with self._lock:
            return self._source.randrange(limit)

    def _flip(self, kind: FaultKind | None, data: bytearray) -> bytearray:
        if kind is FaultKind.FLIPPED_BIT and data:
            data[self._draw(len(data))] ^= 1 << self._draw(8)
        return data
