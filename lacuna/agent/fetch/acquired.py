"""Reads the records that a member of a share group has acquired.

Batches are sent whole, since clients skip records that they have not acquired. Merging drops aborted records, so an
extent may have offsets that are in no batch. These are reported as holes.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from lacuna.agent.fetch.gather import gather
from lacuna.agent.fetch.loading import ExtentGoneError
from lacuna.agent.fetch.plan import FetchPlan, plan_fetch
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.fetch.stretch import Span
from lacuna.agent.fetch.synthesize import slices_of
from lacuna.controlplane.client import PartitionView
from lacuna.wire.layout import Buffer

#: Ranges [first offset, end offset), in order.
Ranges: TypeAlias = Sequence[tuple[int, int]]


class Acquired(NamedTuple):
    """The batches read, the acquired offsets that are in no batch, and the end of a hole at the end of the range."""

    records: tuple[Buffer, ...]
    holes: Ranges
    hole_end: int


async def read_acquired(service: FetchService, view: PartitionView, ranges: Ranges) -> Acquired:
    """Return the batches with these offsets, and the holes among them.

    Raises ControlPlaneUnavailable, and ExtentError if an extent cannot be read.
    """
    for is_last in (False, True):
        await view.ready()
        plans = [_plan(view, first, end) for first, end in _joined(ranges)]
        gathered = await gather(service.cache, plans, may_coalesce=False)
        errors = [found.error for found in gathered if found.error is not None]
        if not errors:
            spans = [span for found in gathered for span in found.spans]
            return Acquired(slices_of(spans, ranges), *_holes(spans, ranges))
        if is_last or not isinstance(errors[0], ExtentGoneError):
            raise errors[0]
        await service.confirm((view,))
    raise AssertionError("the second attempt returns or raises")


def _holes(spans: Iterable[Span], ranges: Ranges) -> tuple[Ranges, int]:
    """Return the parts of ranges that no batch covers, and the base offset of the batch after a final hole, or 0."""
    batches = sorted(
        {
            (span.stretch.base_offsets[index], span.stretch.last_offsets[index] + 1)
            for span in spans
            for index in range(span.first, span.end)
        }
    )
    holes = []
    for first, end in ranges:
        for base_offset, next_offset in batches:
            if first < base_offset < end:
                holes.append((first, base_offset))
            if base_offset < end and next_offset > first:
                first = next_offset
        if first < end:
            holes.append((first, end))
    last = ranges[-1][1]
    if not holes or holes[-1][1] != last:
        return holes, 0
    return holes, min((base for base, _ in batches if base >= last), default=0)


def _plan(view: PartitionView, first_offset: int, end_offset: int) -> FetchPlan:
    """Plan to read the whole range without a size limit, since the number of acquired records is already bounded."""
    partition = (view.topic_id, view.partition)
    return plan_fetch(view.extents, view.dead, first_offset, end_offset, sys.maxsize, partition)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, end in ranges:
        if joined and joined[-1][1] == first:
            first = joined.pop()[0]
        joined.append((first, end))
    return joined
