"""The object store as the rest of Lacuna sees it: a Protocol, its errors and its counters.

Each object is written once, as a whole, and never changes. A store is synchronous and may be called from several
threads at once; agents call it from a thread pool.

Keys consist of components of ``A-Z a-z 0-9 . _ = -`` separated by ``/``. No component begins with a dot, so that a
directory store can keep its own files next to the objects.
"""

import re
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeAlias, overload, runtime_checkable

from lacuna.logstore.objects.prices import DELETE, GET, LIST, PUT, Prices

Part: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

MAX_KEY_SIZE = 900
"""In bytes. S3 allows 1,024 for the bucket's prefix and the key together."""

#: How S3 bills each operation.
_BILLED_AS: Final = {"put": PUT, "get": GET, "head": GET, "list": LIST, "delete": DELETE}

_COMPONENT = r"[A-Za-z0-9_=\-][A-Za-z0-9._=\-]{0,199}"
_KEY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_PREFIX = re.compile(rf"(?:{_COMPONENT}/)*(?:{_COMPONENT})?\Z")


class ObjectStoreError(Exception):
    """Any failure of an object store. If an operator can fix it, the message says how.

    Subclasses keep their arguments in `args`, so that errors can be pickled and sent to another process.
    """


class InvalidKeyError(ObjectStoreError, ValueError):
    """A key or prefix that some store cannot hold. This is always a bug in the caller, never a client's fault."""


class KeyedError(ObjectStoreError):
    """A problem with the object under one key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class ObjectExistsError(KeyedError):
    """`put` wrote nothing, because an object already has this key."""

    def __str__(self) -> str:
        return f"object {self.key!r} already exists, and objects are never overwritten"


class ObjectNotFoundError(KeyedError):
    """No object has this key: it never existed, or it was collected and the read must be planned again."""

    def __str__(self) -> str:
        return f"object {self.key!r} does not exist"


class ShortReadError(ObjectStoreError):
    """The object ends before the end of the requested range.

    `position` and `size` describe the range; `available` is how many of its bytes exist.
    """

    def __init__(self, key: str, position: int, size: int, available: int) -> None:
        super().__init__(key, position, size, available)
        self.key = key
        self.position = position
        self.size = size
        self.available = available

    def __str__(self) -> str:
        return (
            f"object {self.key!r} holds only {self.available} of the {self.size} bytes at position "
            f"{self.position}: it is truncated, or the range belongs to a different object"
        )


class DamagedObjectError(ObjectStoreError):
    """Bytes of an encrypted object differ from those written under its name. None of them are returned.

    The damage, described by `reason`, is within `size` bytes at `position` of the object.
    """

    def __init__(self, key: str, position: int, size: int, reason: str) -> None:
        super().__init__(key, position, size, reason)
        self.key = key
        self.position = position
        self.size = size
        self.reason = reason

    def __str__(self) -> str:
        return f"object {self.key!r} is damaged at position {self.position}: {self.reason}"


class NotDeletedError(ObjectStoreError):
    """Some objects were not deleted. `failures` maps each of their keys to an error; all other objects are gone."""

    def __init__(self, failures: Mapping[str, ObjectStoreError]) -> None:
        super().__init__(failures)
        self.failures = failures

    def __str__(self) -> str:
        key, error = next(iter(self.failures.items()))
        return f"{len(self.failures)} objects were not deleted, among them {key!r}: {error}"


class StoreUnavailableError(ObjectStoreError):
    """The store failed temporarily, so a retry is worthwhile. It is unknown whether a put took effect."""


class StoreMisconfiguredError(ObjectStoreError):
    """The store rejects requests until an operator changes something. The message says what."""


class BucketMissingError(StoreMisconfiguredError):
    """The bucket does not exist."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing. `size` is in bytes; `modified_ms` is in ms since 1970, according to the store."""

    key: str
    size: int
    modified_ms: int


class RangeRead(NamedTuple):
    """A read of `size` bytes of an object, starting at `position`, and the parts of that range that are needed.

    A part is (position in the object, size, position in the buffer). Parts lie within the range, in order and without
    overlap. A store may read or skip the bytes between them.
    """

    key: str
    position: int
    size: int
    parts: Sequence[tuple[int, int, int]]


class Reads(Sequence[RangeRead]):
    """Reads of objects, stored as columns because there may be many small ones.

    Read i is a read of the object keys[i] that spans `spans[i]` bytes and has the parts firsts[i] to firsts[i + 1] - 1.
    The columns `positions`, `sizes` and `starts` describe the parts, as in a `RangeRead`.
    """

    __slots__ = ("firsts", "keys", "positions", "sizes", "spans", "starts")

    def __init__(
        self,
        keys: "list[str]",
        firsts: "array[int]",
        spans: "array[int]",
        positions: "array[int]",
        sizes: "array[int]",
        starts: "array[int]",
    ) -> None:
        self.keys = keys
        self.firsts = firsts
        self.spans = spans
        self.positions = positions
        self.sizes = sizes
        self.starts = starts

    @classmethod
    def of(cls, reads: Sequence[RangeRead]) -> "Reads":
        if isinstance(reads, Reads):
            return reads
        parts = [part for read in reads for part in read.parts]
        return cls(
            [read.key for read in reads],
            array("q", accumulate((len(read.parts) for read in reads), initial=0)),
            array("q", (read.size for read in reads)),
            *(array("q", [part[column] for part in parts]) for column in range(3)),
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> RangeRead: ...

    @overload
    def __getitem__(self, index: slice) -> "list[RangeRead]": ...

    def __getitem__(self, index: int | slice) -> "RangeRead | list[RangeRead]":
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        index = range(len(self))[index]
        parts = slice(self.firsts[index], self.firsts[index + 1])
        columns = (self.positions[parts], self.sizes[parts], self.starts[parts])
        return RangeRead(
            self.keys[index], columns[0][0], self.spans[index], list(zip(*columns, strict=True))
        )


class StoreMetrics:
    """Counters of a store's operations since it was opened. Thread-safe.

    `puts`, `gets`, `deletes` (keys), `lists` (pages) and `sizes` count successful calls. `bytes_written` and
    `bytes_read` count payload bytes. `bytes_between` counts the bytes of `bytes_read` that lay between the parts of a
    `RangeRead` and were not needed. `connections_in_use` counts the connections that are carrying a request; of the
    others, at most `connections_kept` stay open. `second_attempts` counts repeated requests by operation and reason
    (`second_attempts.SLOW`, `SILENT`). `prices` is None if requests cost nothing. For a store that encrypts the objects
    of an inner store, `sent` is the inner store's metrics; otherwise, it is this object.
    """

    def __init__(
        self,
        connections_kept: int = 0,
        prices: Prices | None = None,
        *,
        sent: "StoreMetrics | None" = None,
    ) -> None:
        self._lock = threading.Lock()
        self.sent = sent or self
        self.prices = prices
        self.connections_kept = connections_kept
        self.connections_in_use = 0
        self.puts = 0
        self.bytes_written = 0
        self.gets = 0
        self.bytes_read = 0
        self.bytes_between = 0
        self.sizes = 0
        self.lists = 0
        self.deletes = 0
        self.second_attempts: Counter[tuple[str, str]] = Counter()
        self._clock_ahead_ms: float | None = None

    def dated(self, now_ms: int) -> None:
        self._clock_ahead_ms = now_ms - time.monotonic() * 1000

    def clock_ms(self) -> int:
        """Return the current time according to the service, based on its last response, or 0 if unknown."""
        ahead_ms = self._clock_ahead_ms
        return 0 if ahead_ms is None else int(ahead_ms + time.monotonic() * 1000)

    def dollars(self) -> float:
        sent = self.sent
        if sent.prices is None:
            return 0.0
        gets = sent.gets + sent.sizes
        counts = Counter({PUT: sent.puts, GET: gets, LIST: sent.lists, DELETE: sent.deletes})
        for (operation, _), count in list(sent.second_attempts.items()):
            counts[_BILLED_AS[operation]] += count
        return sent.prices.of(counts)

    @contextmanager
    def connection(self) -> Iterator[None]:
        with self._lock:
            self.connections_in_use += 1
        try:
            yield
        finally:
            with self._lock:
                self.connections_in_use -= 1

    def count_put(self, size: int) -> None:
        with self._lock:
            self.puts += 1
            self.bytes_written += size

    def count_get(self, size: int, gets: int = 1) -> None:
        with self._lock:
            self.gets += gets
            self.bytes_read += size

    def count_between(self, size: int) -> None:
        with self._lock:
            self.bytes_between += size

    def count_size(self) -> None:
        with self._lock:
            self.sizes += 1

    def count_list(self) -> None:
        with self._lock:
            self.lists += 1

    def count_deletes(self, keys: int) -> None:
        with self._lock:
            self.deletes += keys

    def count_second_attempt(self, operation: str, reason: str) -> None:
        with self._lock:
            self.second_attempts[operation, reason] += 1


@runtime_checkable
class ObjectStore(Protocol):
    """Immutable objects, each identified by a key.

    Every method may raise `StoreUnavailableError` and `StoreMisconfiguredError`.
    """

    @property
    def read_gap(self) -> int:
        """The largest gap, in bytes, between two ranges of an object that are read in one request (S18, adr/0021)."""

    @property
    def reads_at_once(self) -> int:
        """The number of concurrent `get` calls beyond which additional calls only slow each other down."""

    @property
    def metrics(self) -> StoreMetrics:
        """The counters of this store."""

    def check(self) -> None:
        """Check at start-up that the store can be reached and used."""

    def put(self, key: str, parts: Sequence[Part]) -> None:
        """Create the object from the concatenated parts. The write is atomic, and durable on return.

        Raises `ObjectExistsError` if the key is taken. After any other error, the whole object may exist, or may appear
        later because a request is still in progress.
        """

    def get(self, key: str, position: int, size: int) -> bytearray:
        """Read exactly `size` (at least 1) bytes, starting at `position`.

        Raises `ObjectNotFoundError` and `ShortReadError`.
        """

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        """In one request, read `size` (at least 1) bytes starting at `position`, or fewer if the object ends sooner.

        Raises `ObjectNotFoundError`, and `ShortReadError` if the object ends at or before `position`.
        """

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        """Perform reads into `buffer`. Return an error or None for each, so that reads can fail independently.

        The error is the one that `get` would raise. After an error, the read's parts of the buffer are undefined.
        """

    def get_all(self, key: str) -> bytearray:
        """Read the whole object, which may be empty. Raises `ObjectNotFoundError`."""

    def size(self, key: str) -> int:
        """Return the object's size in bytes. Raises `ObjectNotFoundError`."""

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix` and is greater than `start_after`, in key order.

        Pages are requested as they are needed. Objects created or deleted in the meantime may or may not be listed.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects under `keys`. A key without an object is not an error.

        All keys are tried, even if some cannot be deleted. Raises `NotDeletedError` at the end if any failed.
        """

    def close(self) -> None:
        """Close connections and files. Later calls fail."""


class RangeReader:
    """Implements `get` and `get_up_to` with `_range`, which may return fewer bytes only at the end of the object."""

    metrics: StoreMetrics

    def _range(self, key: str, position: int, size: int) -> bytearray:
        raise NotImplementedError

    def get(self, key: str, position: int, size: int) -> bytearray:
        data = self._range(key, position, size)
        if len(data) != size:
            raise ShortReadError(key, position, size, min(len(data), size))
        self.metrics.count_get(size)
        return data

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        data = self._range(key, position, size)
        if not data:
            raise ShortReadError(key, position, size, 0)
        self.metrics.count_get(len(data))
        return data


def get_each(
    store: ObjectStore, reads: Sequence[RangeRead], buffer: WritableBuffer
) -> list[ObjectStoreError | None]:
    """Implement `get_into` with a `get` for each read."""
    return [get_parts(store, read, buffer) for read in reads]


def get_parts(
    store: ObjectStore, read: RangeRead, buffer: WritableBuffer
) -> ObjectStoreError | None:
    """Perform one read for `get_into`, using `get`. Return its error, or None."""
    try:
        data = store.get(read.key, read.position, read.size)
    except ObjectStoreError as error:
        return error
    copy_parts(read, data, buffer)
    store.metrics.count_between(read.size - sum(size for _, size, _ in read.parts))
    return None


def delete_each(keys: Iterable[str], delete: Callable[[str], None]) -> None:
    """Call `delete` for each key. Raises `NotDeletedError`, which lists the keys for which `delete` raised an
    `ObjectStoreError`.
    """
    failures: dict[str, ObjectStoreError] = {}
    for key in keys:
        try:
            delete(key)
        except NotDeletedError as error:
            failures.update(error.failures)
        except ObjectStoreError as error:
            failures[key] = error
    if failures:
        raise NotDeletedError(failures)


def copy_parts(read: RangeRead, data: Part, buffer: WritableBuffer) -> None:
    """Copy a read's parts to their places in `buffer`, given `data`, which contains all bytes of the read's range."""
    with memoryview(data) as source, memoryview(buffer) as target:
        for position, size, start in read.parts:
            begin = position - read.position
            target[start : start + size] = source[begin : begin + size]


def wall_clock_ms() -> int:
    """Return the milliseconds since 1970: the default clock of stores that timestamp objects themselves."""
    return time.time_ns() // 1_000_000


def check_key(key: str) -> str:
    """Return `key` if every store can hold it; otherwise raise `InvalidKeyError`."""
    if len(key) > MAX_KEY_SIZE or not _KEY.match(key):
        raise InvalidKeyError(
            f"{key!r} is not a valid object key: use letters, digits and . _ = - in parts "
            "separated by '/'"
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if a key can start with it; otherwise raise `InvalidKeyError`."""
    if not is_prefix(prefix):
        raise InvalidKeyError(f"{prefix!r} cannot be the prefix of an object key")
    return prefix


def is_prefix(text: str) -> bool:
    return len(text) <= MAX_KEY_SIZE and _PREFIX.match(text) is not None


def check_range(key: str, position: int, size: int) -> None:
    """Raise ValueError if the position is negative or the range is empty, which S3 cannot express."""
    if position < 0 or size < 1:
        raise ValueError(f"a range of {size} bytes at position {position} of {key!r} is not valid")
