"""A store that encrypts the objects of another store (`cells` describes the format).

To read a range, the store requests the cells that contain it, and checks each cell before returning any of its bytes.
Sizes and positions refer to the plaintext, and so do the counters in `metrics`; the inner store counts stored bytes.

If the keys allow plaintext, the store reads an object's first bytes to find out whether the object is encrypted.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from lacuna.logstore.objects.cells import (
    CELL_SIZE,
    SALT_SIZE,
    STORED_CELL_SIZE,
    is_encrypted,
    seal,
    size_of,
    unseal,
    unseal_all,
)
from lacuna.logstore.objects.cluster_keys import KeySource
from lacuna.logstore.objects.conditional import ConditionalStore, VersionedObject
from lacuna.logstore.objects.store import (
    DamagedObjectError,
    NotDeletedError,
    ObjectInfo,
    ObjectStore,
    ObjectStoreError,
    Part,
    RangeRead,
    RangeReader,
    ShortReadError,
    StoreMetrics,
    WritableBuffer,
    check_range,
    copy_parts,
)

Inner = TypeVar("Inner", bound=ObjectStore)
T = TypeVar("T")
U = TypeVar("U")

#: The maximum age of the keys when a read decides whether plaintext is still accepted.
_AGE_SECONDS: Final = 1.0
_PAGE_KEYS: Final = 1000
_BEGINNING: Final = 8
_KNOWN_KINDS: Final = 10_000
#: The maximum number of cells in a request that combines reads of the same or adjacent cells.
_MOST_JOINED: Final = 128
#: Threads are used if the store benefits from at least this number of concurrent reads.
_THREADED_FROM: Final = 4


@dataclass(slots=True)
class _Joined:
    """A request for the cells `first` to `last` of one object. It serves the reads with the indexes in `reads`."""

    key: str
    first: int
    last: int
    reads: list[int]


class EncryptedStore(RangeReader, Generic[Inner]):
    """An `ObjectStore` that encrypts all objects, except those under the keys in `plain`, and keeps them in `inner`.

    `random_bytes` supplies salts. Methods may also raise `DamagedObjectError`, and `StoreMisconfiguredError` if a key
    is missing.
    """

    def __init__(
        self,
        inner: Inner,
        keys: KeySource,
        *,
        plain: Collection[str] = (),
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.inner = inner
        self.metrics = StoreMetrics(sent=inner.metrics)
        self.keys = keys
        self.read_gap = inner.read_gap
        self.reads_at_once = inner.reads_at_once
        self._plain = plain
        self._random_bytes = random_bytes
        self._readers = ThreadPoolExecutor(inner.reads_at_once, "decrypt")
        self._lock = threading.Lock()
        self._kinds: OrderedDict[str, bool] = OrderedDict()

    def around(self, inner: ObjectStore) -> EncryptedStore[ObjectStore]:
        """Return a store that applies the same encryption to another inner store."""
        return EncryptedStore(inner, self.keys, plain=self._plain, random_bytes=self._random_bytes)

    def check(self) -> None:
        self.inner.check()

    def put(self, key: str, parts: Sequence[Part]) -> None:
        self.inner.put(key, parts if key in self._plain else [self._seal(key, parts)])
        self._forget([key])
        self.metrics.count_put(sum(map(len, parts)))

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        reads = tuple(reads)
        outcomes: list[ObjectStoreError | None] = [None] * len(reads)
        joined = list(_join(reads))

        def do(request: _Joined) -> None:
            try:
                data = self._cells(request.key, request.first, request.last)
            except ObjectStoreError as error:
                for at in request.reads:
                    outcomes[at] = _error_of(error, reads[at])
                return
            for at in request.reads:
                outcomes[at] = self._hand_out(reads[at], data, request.first * CELL_SIZE, buffer)

        self._each(do, joined)
        return outcomes

    def get_all(self, key: str) -> bytearray:
        data = self._unseal_all(key, self.inner.get_all(key))
        self.metrics.count_get(len(data))
        return data

    def size(self, key: str) -> int:
        stored = self.inner.size(key)
        size = stored if self._is_plain(key) else size_of(key, stored)
        self.metrics.count_size()
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        found = self.inner.list(prefix, start_after)
        while page := list(islice(found, _PAGE_KEYS)):
            self.metrics.count_list()
            kinds = self._each(self._is_plain_if_there, [info.key for info in page])
            for info, is_plain in zip(page, kinds, strict=True):
                yield info if is_plain else _with_own_size(info)

    def delete(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self._forget(keys)
        try:
            self.inner.delete(keys)
        except NotDeletedError as error:
            self.metrics.count_deletes(len(keys) - len(error.failures))
            raise
        self.metrics.count_deletes(len(keys))

    def close(self) -> None:
        self._readers.shutdown()
        self.inner.close()

    def _seal(self, key: str, parts: Sequence[Part]) -> bytearray:
        keys = self.keys.now()
        salt = self._random_bytes(SALT_SIZE)
        return seal(key, parts, keys.current, keys.keys[keys.current], salt)

    def _unseal_all(self, key: str, stored: bytearray) -> bytearray:
        if key in self._plain or (
            not is_encrypted(stored) and self.keys.now(_AGE_SECONDS).reads_plaintext
        ):
            return stored
        return unseal_all(key, stored, self.keys.key)

    def _range(self, key: str, position: int, size: int) -> bytearray:
        """Read `size` bytes starting at `position`, or fewer (possibly none) if the object ends sooner."""
        check_range(key, position, size)
        first = position // CELL_SIZE
        try:
            data = self._cells(key, first, (position + size - 1) // CELL_SIZE)
        except ShortReadError as error:
            raise _error_of(error, RangeRead(key, position, size, ())) from None
        begin = position - first * CELL_SIZE
        if begin == 0 and len(data) <= size:
            return data
        return bytearray(memoryview(data)[begin : begin + size])

    def _cells(self, key: str, first: int, last: int) -> bytearray:
        """Read and decrypt the cells `first` to `last` of an object, or as many of them as exist.

        Raises `ShortReadError` if the object ends before cell `first`.
        """
        count = last - first + 1
        if self._is_plain(key):
            return self.inner.get_up_to(key, first * CELL_SIZE, count * CELL_SIZE)
        stored = self.inner.get_up_to(key, first * STORED_CELL_SIZE, count * STORED_CELL_SIZE)
        data, is_end = unseal(key, first, stored, self.keys.key)
        if len(data) < count * CELL_SIZE and not is_end:
            end = first * CELL_SIZE + len(data)
            raise DamagedObjectError(
                key, end, 0, "it has been truncated, and its last cells are missing"
            )
        return data

    def _hand_out(
        self, read: RangeRead, data: bytearray, position: int, buffer: WritableBuffer
    ) -> ObjectStoreError | None:
        begin = read.position - position
        if (there := len(data) - begin) < read.size:
            return ShortReadError(read.key, read.position, read.size, max(there, 0))
        with memoryview(data) as view:
            copy_parts(read, view[begin : begin + read.size], buffer)
        self.metrics.count_get(read.size)
        self.metrics.count_between(read.size - sum(size for _, size, _ in read.parts))
        return None

    def _is_plain(self, key: str) -> bool:
        """Whether an object is plaintext and may be read as such. Raises `ObjectNotFoundError`."""
        if key in self._plain:
            return True
        if not self.keys.now(_AGE_SECONDS).reads_plaintext:
            return False
        with self._lock:
            known = self._kinds.get(key)
        if known is None:
            try:
                known = not is_encrypted(self.inner.get_up_to(key, 0, _BEGINNING))
            except ShortReadError:
                known = True  # it is empty, which no encrypted object is
            with self._lock:
                self._kinds[key] = known
                if len(self._kinds) > _KNOWN_KINDS:
                    self._kinds.popitem(last=False)
        return known

    def _is_plain_if_there(self, key: str) -> bool:
        """Like `_is_plain`, but return False on errors, since a listed object may have been deleted since."""
        try:
            return self._is_plain(key)
        except ObjectStoreError:
            return False

    def _forget(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._kinds.pop(key, None)

    def _each(self, do: Callable[[T], U], each: Sequence[T]) -> Sequence[U]:
        if len(each) < 2 or self.reads_at_once < _THREADED_FROM:
            return [do(one) for one in each]
        return list(self._readers.map(do, each))


class EncryptedConditionalStore(EncryptedStore[ConditionalStore]):
    """An `EncryptedStore` around a `ConditionalStore`. ETags refer to the stored bytes."""

    def load(self, key: str) -> VersionedObject:
        found = self.inner.load(key)
        data = self._unseal_all(key, bytearray(found.data))
        self.metrics.count_get(len(data))
        return VersionedObject(bytes(data), found.etag)

    def create(self, key: str, data: bytes) -> str:
        etag = self.inner.create(key, self._sealed(key, data))
        self._forget([key])
        self.metrics.count_put(len(data))
        return etag

    def replace(self, key: str, data: bytes, etag: str) -> str:
        new = self.inner.replace(key, self._sealed(key, data), etag)
        self._forget([key])
        self.metrics.count_put(len(data))
        return new

    def _sealed(self, key: str, data: bytes) -> bytes:
        return data if key in self._plain else bytes(self._seal(key, [data]))


def _join(reads: Sequence[RangeRead]) -> Iterator[_Joined]:
    joined: _Joined | None = None
    for at, read in enumerate(reads):
        first, last = read.position // CELL_SIZE, (read.position + read.size - 1) // CELL_SIZE
        if (
            joined is not None
            and joined.key == read.key
            and joined.first <= first <= joined.last + 1
            and max(last, joined.last) - joined.first < _MOST_JOINED
        ):
            joined.last = max(last, joined.last)
            joined.reads.append(at)
            continue
        if joined is not None:
            yield joined
        joined = _Joined(read.key, first, last, [at])
    if joined is not None:
        yield joined


def _error_of(error: ObjectStoreError, read: RangeRead) -> ObjectStoreError:
    if isinstance(error, ShortReadError):
        return ShortReadError(read.key, read.position, read.size, 0)
    return error


def _with_own_size(info: ObjectInfo) -> ObjectInfo:
    """Return the object with its plaintext size, or unchanged if no encrypted object can have its stored size."""
    try:
        return ObjectInfo(info.key, size_of(info.key, info.size), info.modified_ms)
    except DamagedObjectError:
        return info
