"""The segment table: which objects are referred to, which were replaced when, and who pins them."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

#: (lease id, sequence)
SegmentKey = tuple[int, int]


class Pin(NamedTuple):
    """A reader's promise to finish: what was alive at its start is kept until its end."""

    starts_ms: int
    ends_ms: int


class SegmentTable:
    """Objects that were committed and are not yet collected. Only replay changes it."""

    __slots__ = ("live", "pins", "replaced", "sizes")

    def __init__(self) -> None:
        self.live: dict[SegmentKey, int] = {}  # number of extents that refer to it, above 0
        self.replaced: dict[SegmentKey, int] = {}  # when the last extent went, in that order
        self.sizes: dict[SegmentKey, int] = {}
        self.pins: dict[int, Pin] = {}

    def __contains__(self, key: SegmentKey) -> bool:
        return key in self.sizes

    def add(self, key: SegmentKey, object_size: int, extents: int, now_ms: int) -> None:
        """Registers an object; one that nothing refers to is replaced from the start."""
        self.sizes[key] = object_size
        if extents:
            self.live[key] = extents
        else:
            self.replaced[key] = now_ms

    def release(self, lease_ids: Iterable[int], sequences: Iterable[int], now_ms: int) -> None:
        """Takes away one reference for each (lease id, sequence)."""
        gone = Counter(zip(lease_ids, sequences, strict=True))
        for key, count in gone.items():
            left = self.live[key] - count
            if left:
                self.live[key] = left
            else:
                del self.live[key]
                self.replaced[key] = now_ms

    def forget(self, key: SegmentKey) -> None:
        """The object is deleted from the bucket."""
        if self.replaced.pop(key, None) is not None:
            del self.sizes[key]

    def collectable(self, now_ms: int, grace_ms: int, limit: int) -> list[SegmentKey]:
        """Replaced objects past the grace period that no pin holds, oldest first."""
        last_ms = now_ms - grace_ms
        held_from_ms = min(
            (pin.starts_ms for pin in self.pins.values() if pin.ends_ms > now_ms), default=None
        )
        if held_from_ms is not None:
            last_ms = min(last_ms, held_from_ms - 1)
        found: list[SegmentKey] = []
        for key, replaced_ms in self.replaced.items():
            if replaced_ms > last_ms or len(found) >= limit:
                break
            found.append(key)
        return found
