"""Turns plans into spans by taking pieces from the cache and reading the missing pieces together."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.agent.fetch.cache import ExtentCache
from lacuna.agent.fetch.coalescing import COALESCED_BATCH_BYTES
from lacuna.agent.fetch.loading import ExtentError, Run
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.stretch import Span

# A plan with a smaller limit gets the batches that were produced, uncoalesced, up to the limit (KIP-74, S15).
SMALLEST_COALESCED_ANSWER: Final = 2 * COALESCED_BATCH_BYTES
_MOST_AT_ONCE: Final = 1000


@dataclass(slots=True)
class PlanSpans:
    """The spans of a plan, in order, up to the first piece that could not be read.

    If there is such a piece, `resume_offset` is its base offset and `error` is the reason. Otherwise, `resume_offset`
    is where the log continues after the spans. `is_ahead_due` means that the extents after the plan should be read
    ahead now, and `is_coalesced` that batches may be larger than those produced.
    """

    resume_offset: int
    is_coalesced: bool
    spans: list[Span] = field(default_factory=list)
    error: ExtentError | None = None
    is_ahead_due: bool = False

    def ask_again(self) -> None:
        """Mark the last load so that its next use checks whether to read ahead."""
        if self.spans:
            self.spans[-1].stretch.load.wants_ahead = True


async def gather(
    cache: ExtentCache, plans: Sequence[FetchPlan], may_coalesce: bool = True
) -> list[PlanSpans]:
    """Return the spans of each plan in order, up to a read error if there was one.

    The missing pieces of all plans are read concurrently, so that a fetch waits only for the slowest read. Long lists
    are processed in steps, between which other requests are served. A plan with a small limit is never coalesced.
    """
    if len(plans) <= _MOST_AT_ONCE:
        return await _gather(cache, plans, may_coalesce)
    gathered: list[PlanSpans] = []
    for start in range(0, len(plans), _MOST_AT_ONCE):
        gathered += await _gather(cache, plans[start : start + _MOST_AT_ONCE], may_coalesce)
        await asyncio.sleep(0)
    return gathered


async def _gather(
    cache: ExtentCache, plans: Sequence[FetchPlan], may_coalesce: bool
) -> list[PlanSpans]:
    missing: list[Run] = []
    found = []
    for plan in plans:
        is_coalesced = may_coalesce and plan.max_bytes >= SMALLEST_COALESCED_ANSWER
        gathered = PlanSpans(plan.resume_offset, is_coalesced)
        found.append((gathered, _find(cache, plan, gathered, missing)))
    read = iter(await cache.read(missing) if missing else ())
    for gathered, parts in found:
        for part in parts:
            if isinstance(part, Span):
                _add(gathered, [part])
            else:
                _add_read(gathered, part, *next(read))
        if gathered.is_coalesced:
            _coalesce(cache, gathered)
    return [gathered for gathered, _ in found]


def _add(gathered: PlanSpans, spans: Sequence[Span]) -> None:
    if gathered.error is not None:  # pieces that follow an unreadable one are not sent
        return
    for span in spans:
        gathered.spans.append(span)
        if span.cut_offset is not None:
            gathered.resume_offset = span.cut_offset
        load = span.stretch.load
        if load.wants_ahead:
            load.wants_ahead = False
            gathered.is_ahead_due = True


def _add_read(
    gathered: PlanSpans, run: Run, spans: Sequence[Span], error: ExtentError | None
) -> None:
    gathered.is_ahead_due = True
    _add(gathered, spans)
    if gathered.error is None and error is not None:
        gathered.error = error
        index = sum(span.piece_count for span in spans)
        gathered.resume_offset = run.pieces.base_offsets[index]


def _coalesce(cache: ExtentCache, gathered: PlanSpans) -> None:
    try:
        gathered.spans = cache.coalesce(gathered.spans)
    except ExtentError as error:
        gathered.error, gathered.spans = error, []


def _find(
    cache: ExtentCache, plan: FetchPlan, gathered: PlanSpans, missing: list[Run]
) -> list[Span | Run]:
    """Return the plan's spans in memory and the runs of missing pieces between them. Add these runs to `missing`."""
    parts: list[Span | Run] = []
    partition, pieces = plan.partition, plan.pieces
    first = index = 0
    span = None
    while index < len(pieces) and (span is None or span.cut_offset is None):
        span = None
        if gathered.is_coalesced:
            span = cache.find_coalesced(plan, index)
        span = span or cache.find(partition, pieces, index)
        if span is None:
            index = cache.missing_until(partition, pieces, index, gathered.is_coalesced)
            continue
        if first < index:
            parts.append(Run(partition, pieces[first:index]))
        parts.append(span)
        first = index = index + span.piece_count
    if first < index:
        parts.append(Run(partition, pieces[first:]))
    missing += [part for part in parts if not isinstance(part, Span)]
    return parts
