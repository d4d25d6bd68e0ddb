"""An object store in memory, for tests and for clusters whose data need not outlive the process."""

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from lacuna.logstore.objects.conditional import ConditionFailedError, VersionedObject
from lacuna.logstore.objects.kind import StoreKind
from lacuna.logstore.objects.store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    Part,
    RangeRead,
    RangeReader,
    StoreMetrics,
    WritableBuffer,
    check_key,
    check_prefix,
    check_range,
    get_each,
    wall_clock_ms,
)

_PAGE_KEYS = 1000


class MemoryStore(RangeReader):
    """A `ConditionalStore` in this process's memory. `now_ms` provides the modification times of objects."""

    read_gap = 0
    reads_at_once = 1

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.metrics = StoreMetrics()
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._keys: list[str] = []

    def check(self) -> None:
        """Do nothing, since memory can always be used."""

    def put(self, key: str, parts: Sequence[Part]) -> None:
        check_key(key)
        payload = b"".join(parts)
        with self._lock:
            if key in self._objects:
                raise ObjectExistsError(key)
            self._objects[key] = (payload, self._now_ms())
            insort(self._keys, key)
        self.metrics.count_put(len(payload))

    def load(self, key: str) -> VersionedObject:
        payload = self._payload(key)
        self.metrics.count_get(len(payload))
        return VersionedObject(payload, _etag(payload))

    def create(self, key: str, data: bytes) -> str:
        try:
            self.put(key, [data])
        except ObjectExistsError:
            raise ConditionFailedError(key) from None
        return _etag(data)

    def replace(self, key: str, data: bytes, etag: str) -> str:
        check_key(key)
        with self._lock:
            if key not in self._objects:
                raise ObjectNotFoundError(key)
            if _etag(self._objects[key][0]) != etag:
                raise ConditionFailedError(key)
            self._objects[key] = (data, self._now_ms())
        self.metrics.count_put(len(data))
        return _etag(data)

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        return get_each(self, reads, buffer)

    def get_all(self, key: str) -> bytearray:
        data = bytearray(self._payload(key))
        self.metrics.count_get(len(data))
        return data

    def size(self, key: str) -> int:
        size = len(self._payload(key))
        self.metrics.count_size()
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        last = start_after
        while page := self._page(prefix, last):
            self.metrics.count_list()
            yield from page
            last = page[-1].key

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            check_key(key)
            with self._lock:
                if self._objects.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            self.metrics.count_deletes(1)

    def close(self) -> None:
        """Do nothing: code that still holds the store can continue to read its objects."""

    def _range(self, key: str, position: int, size: int) -> bytearray:
        check_range(key, position, size)
        return bytearray(memoryview(self._payload(key))[position : position + size])

    def _payload(self, key: str) -> bytes:
        check_key(key)
        with self._lock:
            found = self._objects.get(key)
        if found is None:
            raise ObjectNotFoundError(key)
        return found[0]

    def _page(self, prefix: str, start_after: str) -> tuple[ObjectInfo, ...]:
        """Return the next objects of a listing, copied so that writers need not wait for the reader."""
        with self._lock:
            first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, start_after))
            return tuple(
                ObjectInfo(key, len(self._objects[key][0]), self._objects[key][1])
                for key in self._keys[first : first + _PAGE_KEYS]
                if key.startswith(prefix)
            )


def _etag(payload: bytes) -> str:
    return f'"{blake2b(payload, digest_size=16).hexdigest()}"'


MEMORY: Final = StoreKind(
    scheme="memory",
    form="memory:",
    is_store=lambda parts: not (parts.netloc or parts.path.strip("/")),
    open=lambda _, __: MemoryStore(),
    is_shared=False,
)
