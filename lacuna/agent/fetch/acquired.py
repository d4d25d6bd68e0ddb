"""Reads the records that a member of a share group has acquired.

Batches are sent whole: a client skips the records of a batch that it has not acquired. Holes are not filled, because
nothing in them was acquired.
"""

import sys
from collections.abc import Iterable, Sequence

from lacuna.agent.fetch.gather import gather
from lacuna.agent.fetch.loading import ExtentGoneError
from lacuna.agent.fetch.plan import FetchPlan, plan_fetch
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.fetch.synthesize import slices_of
from lacuna.controlplane.client import PartitionView
from lacuna.wire.layout import Buffer

#: Ranges [first offset, end offset), in order.
Ranges = Sequence[tuple[int, int]]


async def read_acquired(
    service: FetchService, view: PartitionView, ranges: Ranges
) -> tuple[Buffer, ...]:
    """Return the batches with these offsets. Raises ExtentError, and ControlPlaneUnavailable."""
    for is_last in (False, True):
        await view.ready()
        plans = [_plan(view, first, end) for first, end in _joined(ranges)]
        gathered = await gather(service.cache, plans, may_coalesce=False)
        errors = [found.error for found in gathered if found.error is not None]
        if not errors:
            spans = [span for found in gathered for span in found.spans]
            return slices_of(spans, ranges)
        if is_last or not isinstance(errors[0], ExtentGoneError):
            raise errors[0]
        await service.confirm((view,))
    raise AssertionError("the second attempt returns or raises")


def _plan(view: PartitionView, first_offset: int, end_offset: int) -> FetchPlan:
    """Plan to read everything: what was acquired is bounded already."""
    partition = (view.topic_id, view.partition)
    return plan_fetch(view.extents, view.dead, first_offset, end_offset, sys.maxsize, partition)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbours, which differ in their deliveries only."""
    joined: list[tuple[int, int]] = []
    for first, end in ranges:
        if joined and joined[-1][1] == first:
            first = joined.pop()[0]
        joined.append((first, end))
    return joined
