"""The object store of an agent, including the hot segments in the control plane's journal (adr/0071).

A flush puts a hot segment like any other segment, and then takes the segment's bytes back to send them with its commit.
A reader holds the hot segments that it needs with `HotStore.holding`, which fetches them from the control plane unless
this agent has written or read them recently. All other calls are passed to the underlying store.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Final, TypeAlias

from lacuna.base.setting import MEBIBYTE
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadHot, SegmentId
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import (
    DamagedObjectError,
    ObjectInfo,
    ObjectNotFoundError,
    Part,
    RangeRead,
    Reads,
    ShortReadError,
    StoreMetrics,
    StoreUnavailableError,
    WritableBuffer,
    check_range,
    copy_parts,
)
from lacuna.logstore.segments import parse_segment_key
from lacuna.logstore.segments.hot import is_hot
from lacuna.logstore.segments.paths import InvalidPathError

_KEPT_BYTES: Final = 64 * MEBIBYTE
#: How many segments that could not be fetched are remembered, each with the reason.
_MOST_FAILURES: Final = 10_000


#: Fetches the hot segments among the objects with these keys, and holds them for reads inside the block.
Holding: TypeAlias = Callable[[Iterable[str]], AbstractAsyncContextManager[None]]


def nothing_held(_keys: Iterable[str]) -> AbstractAsyncContextManager[None]:
    """Fetch nothing. Serves as `holding` for a store without hot segments."""
    return nullcontext()


class HotStore:
    """An `ObjectStore` that adds hot segments to `inner`. Thread-safe, but `holding` belongs to one event loop."""

    def __init__(self, inner: ObjectStore, control: ControlClient) -> None:
        self.inner = inner
        self._control = control
        self._lock = threading.Lock()
        #: The bytes of hot segments by key: first those that no reader holds, in least recently used order, and then
        #: those that are held.
        self._free: OrderedDict[str, bytes] = OrderedDict()
        self._held: dict[str, bytes] = {}
        self._kept_bytes = 0
        #: How many readers hold each segment.
        self._holders: Counter[str] = Counter()
        #: Segments that have just been put, until `written` takes their bytes.
        self._put: dict[str, bytes] = {}
        self._failures: OrderedDict[str, ObjectStoreError] = OrderedDict()

    @property
    def read_gap(self) -> int:
        return self.inner.read_gap

    @property
    def reads_at_once(self) -> int:
        return self.inner.reads_at_once

    @property
    def metrics(self) -> StoreMetrics:
        return self.inner.metrics

    def check(self) -> None:
        self.inner.check()

    def put(self, key: str, parts: Sequence[Part]) -> None:
        if is_hot_key(key):
            data = b"".join(parts)
            self._put[key] = data
            self._keep({key: data})
        else:
            self.inner.put(key, parts)

    def written(self, key: str) -> bytes:
        """Return the bytes of a hot segment for its commit. Call this once, directly after the segment's put."""
        return self._put.pop(key)

    @asynccontextmanager
    async def holding(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """Fetch the hot segments among these objects, and hold them for reads inside the block.

        Never raises. If a segment could not be fetched, a later read from it raises the error.
        """
        hot = [key for key in dict.fromkeys(keys) if is_hot_key(key)]
        if not hot:
            yield
            return
        with self._lock:
            self._holders.update(hot)
            for key in hot:
                if key in self._free:
                    self._held[key] = self._free.pop(key)
            missing = [key for key in hot if key not in self._held]
        try:
            if missing:
                await self._bring(missing)
            yield
        finally:
            with self._lock:
                self._holders.subtract(hot)
                for key in hot:
                    if not self._holders[key]:
                        del self._holders[key]
                        if key in self._held:
                            self._free[key] = self._held.pop(key)
                self._evict()

    def get(self, key: str, position: int, size: int) -> bytearray:
        if not is_hot_key(key):
            return self.inner.get(key, position, size)
        data = _range(key, self._bytes_of(key), position, size)
        if len(data) < size:
            raise ShortReadError(key, position, size, len(data))
        return data

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        if not is_hot_key(key):
            return self.inner.get_up_to(key, position, size)
        data = _range(key, self._bytes_of(key), position, size)
        if not data:
            raise ShortReadError(key, position, size, 0)
        return data

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        keys = reads.keys if isinstance(reads, Reads) else [read.key for read in reads]
        are_hot = [*map(is_hot_key, keys)]
        if not any(are_hot):
            return self.inner.get_into(reads, buffer)
        outcomes: list[ObjectStoreError | None] = [None] * len(reads)
        cold = [at for at, hot in enumerate(are_hot) if not hot]
        if cold:
            found = self.inner.get_into([reads[at] for at in cold], buffer)
            for at, outcome in zip(cold, found, strict=True):
                outcomes[at] = outcome
        for at, hot in enumerate(are_hot):
            if hot:
                outcomes[at] = self._copy(reads[at], buffer)
        return outcomes

    def get_all(self, key: str) -> bytearray:
        return bytearray(self._bytes_of(key)) if is_hot_key(key) else self.inner.get_all(key)

    def size(self, key: str) -> int:
        return len(self._bytes_of(key)) if is_hot_key(key) else self.inner.size(key)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects from the underlying store, including those that jobs put there for hot segments. The
        control plane drops the hot segments themselves.
        """
        self.inner.delete(keys)

    def close(self) -> None:
        self.inner.close()

    def _bytes_of(self, key: str) -> bytes:
        with self._lock:
            data = self._held.get(key) or self._free.get(key)
            if data is not None:
                return data
            failure = self._failures.get(key)
        if isinstance(failure, ObjectNotFoundError | DamagedObjectError):
            # A job may have put the segment into the bucket, where a pin may still hold it.
            with suppress(ObjectNotFoundError):
                return bytes(self.inner.get_all(key))
        raise failure or StoreUnavailableError(f"hot segment {key!r} is not held by its reader")

    def _copy(self, read: RangeRead, buffer: WritableBuffer) -> ObjectStoreError | None:
        try:
            data = self._bytes_of(read.key)
        except ObjectStoreError as error:
            return error
        if len(data) < read.position + read.size:
            there = max(len(data) - read.position, 0)
            return ShortReadError(read.key, read.position, read.size, there)
        with memoryview(data) as view:
            copy_parts(read, view[read.position : read.position + read.size], buffer)
        return None

    async def _bring(self, keys: Sequence[str]) -> None:
        """Fetch segments from the control plane, and keep their bytes or the reasons why they cannot be read."""
        segments = [
            SegmentId(lease_id=_lease_of(key), sequence=int(key[-_NAME_LENGTH:-4], 16))
            for key in keys
        ]
        try:
            reply = await self._control.call(Command(read_hot=ReadHot(segments=segments)))
        except (ControlPlaneUnavailable, CommandRefused) as error:
            failure = StoreUnavailableError(
                f"hot segments could not be read from the control plane: {error}"
            )
            self._fail(dict.fromkeys(keys, failure))
            return
        answers = dict(zip(keys, reply.hot_read.segments, strict=True))
        self._fail({key: ObjectNotFoundError(key) for key in keys if answers[key].is_gone})
        self._fail({key: _damaged(key) for key in keys if answers[key].is_damaged})
        self._keep({key: each.data for key, each in answers.items() if each.data})

    def _keep(self, more: dict[str, bytes]) -> None:
        with self._lock:
            for key, data in more.items():
                self._failures.pop(key, None)
                kept = self._held if key in self._holders else self._free
                self._kept_bytes += len(data) - len(kept.pop(key, b""))
                kept[key] = data
            self._evict()

    def _fail(self, failures: Mapping[str, ObjectStoreError]) -> None:
        with self._lock:
            self._failures.update(failures)
            while len(self._failures) > _MOST_FAILURES:
                self._failures.popitem(last=False)

    def _evict(self) -> None:
        while self._free and self._kept_bytes > _KEPT_BYTES:
            _, data = self._free.popitem(last=False)
            self._kept_bytes -= len(data)


def with_hot(store: ObjectStore, control: ControlClient) -> tuple[ObjectStore, HotStore]:
    """Return `store` extended with hot segments, and the HotStore within it.

    The HotStore lies below the encryption layer, so hot segments are encrypted in the journal like objects in the
    bucket.
    """
    if isinstance(store, EncryptedStore):
        hot = HotStore(store.inner, control)
        return store.around(hot), hot
    hot = HotStore(store, control)
    return hot, hot


def is_hot_key(key: str) -> bool:
    # In a key, the highest digit of the lease id comes last. Only hot leases have a digit in this range.
    return key[-18:-16] in _HOT_ENDINGS and key.endswith(".seg") and _lease_of(key) != _NO_LEASE


def _lease_of(key: str) -> int:
    """Return the id of the hot lease in a segment's key, or _NO_LEASE for any other object."""
    return _hot_lease(key[:-_NAME_LENGTH])


@lru_cache(maxsize=256)
def _hot_lease(prefix: str) -> int:
    """Return the id of the hot lease with this prefix, which all its segments share, or _NO_LEASE."""
    try:
        lease_id = parse_segment_key(f"{prefix}{0:012x}.seg")[1].lease_id
    except InvalidPathError:
        return _NO_LEASE
    return lease_id if is_hot(lease_id) else _NO_LEASE


def _damaged(key: str) -> DamagedObjectError:
    return DamagedObjectError(
        key, 0, 0, "its bytes in the journal differ from those that were written"
    )


#: What `_lease_of` returns for objects that are not hot segments.
_NO_LEASE: Final = -1
#: The length of the last part of a segment's key: twelve digits and `.seg`.
_NAME_LENGTH: Final = 16
_HOT_ENDINGS: Final = frozenset(f"{digit:x}/" for digit in range(4, 8))


def _range(key: str, data: bytes, position: int, size: int) -> bytearray:
    check_range(key, position, size)
    return bytearray(memoryview(data)[position : position + size])
