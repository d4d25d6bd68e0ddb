"""The object store of an agent, with the hot segments that are in the control plane's journal (adr/0069).

A hot segment is put like any other: it waits here until its commit takes its bytes along. Reads of hot segments get
them from what this agent wrote or read last, and otherwise from the control plane. All else goes to the store beneath.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import TimeoutError as CallTimeout
from typing import Final

from lacuna.base.setting import MEBIBYTE
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.hot import is_hot
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadHot, SegmentId
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import (
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
from lacuna.logstore.segments.paths import InvalidPathError

_KEPT_BYTES: Final = 64 * MEBIBYTE
_LONGEST_READ_SECONDS: Final = 30.0


class HotStore:
    """An `ObjectStore` over `inner`. Thread-safe, but hot segments must not be read in the event loop `loop`."""

    def __init__(
        self, inner: ObjectStore, control: ControlClient, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.inner = inner
        self._control = control
        self._loop = loop
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

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
            self._keep({key: b"".join(parts)})
        else:
            self.inner.put(key, parts)

    def written(self, key: str) -> bytes:
        """Return the bytes of a hot segment that was just put."""
        with self._lock:
            return self._kept[key]

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
        try:
            data = self._find(list(dict.fromkeys(key for key in keys if is_hot_key(key))))
        except ObjectStoreError as error:
            return [error if hot else outcomes[at] for at, hot in enumerate(are_hot)]
        for at, hot in enumerate(are_hot):
            if hot:
                outcomes[at] = _copy(reads[at], data.get(keys[at]), buffer)
        return outcomes

    def get_all(self, key: str) -> bytearray:
        return bytearray(self._bytes_of(key)) if is_hot_key(key) else self.inner.get_all(key)

    def size(self, key: str) -> int:
        return len(self._bytes_of(key)) if is_hot_key(key) else self.inner.size(key)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects. The control plane drops hot segments by itself."""
        if cold := [key for key in keys if not is_hot_key(key)]:
            self.inner.delete(cold)

    def close(self) -> None:
        self.inner.close()

    def _bytes_of(self, key: str) -> bytes:
        found = self._find([key]).get(key)
        if found is None:
            raise ObjectNotFoundError(key)
        return found

    def _find(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of hot segments by key, without those that are gone."""
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in keys if key not in found]
        if missing:
            brought = self._bring(missing)
            self._keep(brought)
            found |= brought
        return found

    def _bring(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Ask the control plane. Raises StoreUnavailableError."""
        ids = [parse_segment_key(key)[1] for key in keys]
        segments = [SegmentId(lease_id=each.lease_id, sequence=each.sequence) for each in ids]
        command = Command(read_hot=ReadHot(segments=segments))
        asked = asyncio.run_coroutine_threadsafe(self._control.call(command), self._loop)
        try:
            answers = asked.result(_LONGEST_READ_SECONDS).hot_read.segments
        except (ControlPlaneUnavailable, CommandRefused, CallTimeout) as error:
            asked.cancel()
            raise StoreUnavailableError(
                f"hot segments could not be read from the control plane: {error}"
            ) from error
        return {
            key: answer.data
            for key, answer in zip(keys, answers, strict=True)
            if not answer.is_gone
        }

    def _keep(self, more: dict[str, bytes]) -> None:
        with self._lock:
            for key, data in more.items():
                self._kept_bytes += len(data) - len(self._kept.pop(key, b""))
                self._kept[key] = data
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._kept_bytes -= len(dropped)


def with_hot(
    store: ObjectStore, control: ControlClient, loop: asyncio.AbstractEventLoop
) -> tuple[ObjectStore, HotStore]:
    """Return `store` with hot segments, and their part of it.

    They are beneath the encryption, so that the journal has them encrypted like objects in the bucket.
    """
    if isinstance(store, EncryptedStore):
        hot = HotStore(store.inner, control, loop)
        return store.around(hot), hot
    hot = HotStore(store, control, loop)
    return hot, hot


def is_hot_key(key: str) -> bool:
    """Whether the object under this key is a hot segment."""
    # The highest digit of the lease id, which stands last; only hot leases have one.
    if key[-18:-16] not in _HOT_ENDINGS:
        return False
    try:
        return is_hot(parse_segment_key(key)[1].lease_id)
    except InvalidPathError:
        return False


_HOT_ENDINGS: Final = frozenset(f"{digit:x}/" for digit in range(4, 8))


def _range(key: str, data: bytes, position: int, size: int) -> bytearray:
    check_range(key, position, size)
    return bytearray(memoryview(data)[position : position + size])


def _copy(read: RangeRead, data: bytes | None, buffer: WritableBuffer) -> ObjectStoreError | None:
    if data is None:
        return ObjectNotFoundError(read.key)
    if len(data) < read.position + read.size:
        there = max(len(data) - read.position, 0)
        return ShortReadError(read.key, read.position, read.size, there)
    with memoryview(data) as view:
        copy_parts(read, view[read.position : read.position + read.size], buffer)
    return None
