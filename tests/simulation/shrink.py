"""Removes all faults that a failing seed does not need in order to fail."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.faults import Fault


def shrink(faults: list[Fault], fails: Callable[[set[int]], bool]) -> list[Fault]:
    """Return a minimal list of faults that still fails.

    `fails(without)` replays the seed without the faults of these numbers. It first omits halves, then quarters, and so
    on, so that a long list takes few replays.
    """
    kept = list(faults)
    size = max(1, len(kept) // 2)
    while kept:
        removed_any = False
        start = 0
        while start < len(kept):
            part = kept[start : start + size]
            rest = [each for each in kept if each not in part]
            if fails({each.number for each in faults} - {each.number for each in rest}):
                kept = rest
                removed_any = True
            else:
                start += size
        if size == 1 and not removed_any:
            break
        size = max(1, size // 2)
    return kept
