"""Removes safeguards of hot segments, whose bytes the journal keeps (see `safeguards.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock
from weakref import WeakKeyDictionary

from lacuna.controlplane import hot
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import HotKey, HotSegment
from lacuna.controlplane.v1.log_pb2 import HotRead, SwapPartition
from lacuna.controlplane.verbs import swapping
from lacuna.logstore.segments.hot import is_hot

Remove = Callable[[], AbstractContextManager[Any]]
patch = mock.patch.object


def _late_hot_bytes() -> AbstractContextManager[Any]:
    """The bytes of hot segments are written by the append after that of their commits."""
    take = HotBytes.take
    waiting: WeakKeyDictionary[HotBytes, list[HotSegment]] = WeakKeyDictionary()

    def late(self: HotBytes) -> list[HotSegment]:
        before = waiting.get(self, [])
        waiting[self] = take(self)
        return before

    return patch(HotBytes, "take", late)


def _dropped_at_once() -> AbstractContextManager[Any]:
    """Hot segments are dropped before merging has moved them out."""
    return patch(hot, "_is_due", lambda *_: True)


def _hot_bytes_from_memory() -> AbstractContextManager[Any]:
    """A control plane serves hot segments from its memory whether or not its journal has them."""
    read, keep = HotBytes._read, HotBytes._keep
    memories: WeakKeyDictionary[HotBytes, dict[HotKey, bytes]] = WeakKeyDictionary()

    def kept(self: HotBytes, key: HotKey, data: bytes) -> None:
        memories.setdefault(self, {})[key] = data
        keep(self, key, data)

    async def remembered(self: HotBytes, keys: Sequence[HotKey]) -> HotRead:
        answer, memory = await read(self, keys), memories.get(self, {})
        for key, found in zip(keys, answer.segments, strict=True):
            if found.is_gone and key in memory:
                found.data, found.is_gone = memory[key], False
        return answer

    return mock.patch.multiple(HotBytes, _keep=kept, _read=remembered)


def _hot_moved_again() -> AbstractContextManager[Any]:
    """A swap of hot extents is accepted, whatever has replaced them since the plan."""
    is_as_planned = swapping._is_as_planned

    def planned(partition: Any, wanted: SwapPartition, start: int, stop: int) -> bool:
        is_of_hot = any(map(is_hot, wanted.replaced.lease_ids))
        return is_of_hot or is_as_planned(partition, wanted, start, stop)

    return patch(swapping, "_is_as_planned", planned)


#: Name → what takes it away. Short histories find them.
HOT_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "hot bytes in the append": _late_hot_bytes,
    "hot bytes kept until moved": _dropped_at_once,
    "journal of a hot read": _hot_bytes_from_memory,
    "hot extents moved once": _hot_moved_again,
}
