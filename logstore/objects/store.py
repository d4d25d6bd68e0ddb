"""The object store as the rest of Lacuna sees it: one Protocol, its errors and its counters.

An object is written once, whole, and never changed. A store is synchronous and may be called from
any number of threads at once; an agent calls it from a thread pool.

Keys are ``/``-separated components of ``A-Z a-z 0-9 . _ = -``; no component begins with a dot, so
that a directory store can keep its own files beside the objects.
"""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

Part: TypeAlias = bytes | bytearray | memoryview

MAX_KEY_SIZE = 900
"""Bytes. S3 allows 1,024 for the bucket's prefix and the key together."""

_COMPONENT = r"[A-Za-z0-9_=\-][A-Za-z0-9._=\-]{0,199}"
_KEY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_PREFIX = re.compile(rf"(?:{_COMPONENT}/)*(?:{_COMPONENT})?\Z")


class ObjectStoreError(Exception):
    """Any failure of an object store. The message says what to do where an operator can do it.

    The arguments of a subclass are its `args`, so that it can be pickled on its way between processes.
    """


class InvalidKeyError(ObjectStoreError, ValueError):
    """A key or prefix that not every store can hold. A bug of the caller, never a peer's doing."""


class ObjectExistsError(ObjectStoreError):
    """`put` found an object under this key; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"object {self.key!r} exists already and objects are never overwritten"


class ObjectNotFoundError(ObjectStoreError):
    """There is no object under this key (never was, or it was collected: plan the read again)."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"object {self.key!r} does not exist"


class ShortReadError(ObjectStoreError):
    """The object ends before the range that was asked for.

    `position` and `size` are the asked range, `available` the bytes of it that exist.
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
            f"{self.position}: it is truncated, or the range was taken from another object"
        )


class StoreUnavailableError(ObjectStoreError):
    """The store failed for now. Worth a retry; whether a put took place is unknown."""


class StoreMisconfiguredError(ObjectStoreError):
    """The store refuses us until an operator changes something; the message says what."""


class BucketMissingError(StoreMisconfiguredError):
    """There is no such bucket."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One line of a listing. `size` in bytes, `modified_ms` since 1970 by the store's clock."""

    key: str
    size: int
    modified_ms: int


class RangeRead(NamedTuple):
    """One read: `size` bytes from `position` of the object `key`, of which some parts are wanted.

    A part is (position in the object, size, where it goes in the buffer). Parts lie in the range, in
    order and apart; between them is what is read along, or not at all where a read costs nothing.
    """

    key: str
    position: int
    size: int
    parts: Sequence[tuple[int, int, int]]


class StoreMetrics:
    """What a store was asked to do since it was opened. Counts finished calls; safe from threads.

    `puts`, `gets`, `deletes` (keys), `lists` (pages) and `sizes` count calls that succeeded;
    `bytes_written` and `bytes_read` payload bytes.
    """

    __slots__ = (
        "_lock", "bytes_read", "bytes_written", "deletes", "gets", "lists", "puts", "sizes",
    )  # fmt: skip

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.puts = 0
        self.bytes_written = 0
        self.gets = 0
        self.bytes_read = 0
        self.sizes = 0
        self.lists = 0
        self.deletes = 0

    def count_put(self, size: int) -> None:
        with self._lock:
            self.puts += 1
            self.bytes_written += size

    def count_get(self, size: int, gets: int = 1) -> None:
        with self._lock:
            self.gets += gets
            self.bytes_read += size

    def count_size(self) -> None:
        with self._lock:
            self.sizes += 1

    def count_list(self) -> None:
        with self._lock:
            self.lists += 1

    def count_deletes(self, keys: int) -> None:
        with self._lock:
            self.deletes += keys


@runtime_checkable
class ObjectStore(Protocol):
    """Immutable objects by key.

    Every method may raise `StoreUnavailableError` and `StoreMisconfiguredError`.
    """

    @property
    def read_gap(self) -> int:
        """Bytes. Two ranges of one object that lie nearer than this are worth one read (S18)."""

    @property
    def reads_at_once(self) -> int:
        """How many `get`s at a time make the store faster; more only stand in each other's way."""

    @property
    def metrics(self) -> StoreMetrics:
        """The counters of this store."""

    def check(self) -> None:
        """Make sure that the store can be reached and used; for start-up."""

    def put(self, key: str, parts: Sequence[Part]) -> None:
        """Create the object from the concatenated parts, all or nothing, durable on return.

        Raises `ObjectExistsError` if the key is taken. After any other error the object may exist,
        whole, or may appear later (a request that is still on its way).
        """

    def get(self, key: str, position: int, size: int) -> bytearray:
        """Exactly `size` (at least 1) bytes from `position`.

        Raises `ObjectNotFoundError`, `ShortReadError`.
        """

    def get_into(
        self, reads: Sequence[RangeRead], buffer: bytearray
    ) -> list[ObjectStoreError | None]:
        """Do many reads, one after the other; one outcome each, so that one may fail alone.

        What `get` would raise is an outcome; then the parts of that read are undefined.
        """

    def get_all(self, key: str) -> bytearray:
        """The whole object, which may be empty. `ObjectNotFoundError`."""

    def size(self, key: str) -> int:
        """Bytes of the object. `ObjectNotFoundError`."""

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with `prefix` and is greater than `start_after`, in key order.

        Lazily, a page at a time. Objects that come or go meanwhile may be there or not.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Delete what is there of `keys`; a key that is not there is no error."""

    def close(self) -> None:
        """Give up connections and descriptors. Calls after it fail."""


def get_each(
    store: ObjectStore, reads: Sequence[RangeRead], buffer: bytearray
) -> list[ObjectStoreError | None]:
    """`get_into` by means of `get`."""
    outcomes: list[ObjectStoreError | None] = []
    for read in reads:
        try:
            data = memoryview(store.get(read.key, read.position, read.size))
        except ObjectStoreError as error:
            outcomes.append(error)
            continue
        for position, size, start in read.parts:
            begin = position - read.position
            buffer[start : start + size] = data[begin : begin + size]
        outcomes.append(None)
    return outcomes


def wall_clock_ms() -> int:
    """Milliseconds since 1970; the default clock of stores that stamp objects themselves."""
    return time.time_ns() // 1_000_000


def check_key(key: str) -> str:
    """`key` if every store can hold it, else `InvalidKeyError`."""
    if len(key) > MAX_KEY_SIZE or not _KEY.match(key):
        raise InvalidKeyError(
            f"{key!r} is no object key: see logstore/objects/store.py for the form"
        )
    return key


def check_prefix(prefix: str) -> str:
    """`prefix` if some key can start with it, else `InvalidKeyError`."""
    if not is_prefix(prefix):
        raise InvalidKeyError(f"{prefix!r} is no prefix of any object key")
    return prefix


def is_prefix(text: str) -> bool:
    """Whether some key can start with `text`."""
    return len(text) <= MAX_KEY_SIZE and _PREFIX.match(text) is not None


def check_range(key: str, position: int, size: int) -> None:
    """Refuse a range that is no range. An empty read has no meaning in S3, so it has none here."""
    if position < 0 or size < 1:
        raise ValueError(f"range of {size} bytes at position {position} of {key!r} is no range")
