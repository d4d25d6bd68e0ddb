"""From plans to spans: out of the cache, read together where they are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from agent.fetch.cache import ExtentCache, Found
from agent.fetch.loading import ExtentError
from agent.fetch.plan import Piece, Plan
from agent.fetch.stretch import Span
from agent.fetch.synthesize import COALESCED_BATCH_BYTES, Coalescer

# A smaller answer is made of the batches as they are: whole ones up to the limit (KIP-74, S15).
SMALLEST_COALESCED_ANSWER: Final = 2 * COALESCED_BATCH_BYTES

#: Pieces [first, end) of a plan, which are not in memory.
_Missing: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class Gathered:
    """The spans of a plan, in order, up to the piece that could not be had.

    There `resume_offset` then is, and `error` says why. `is_ahead_due`: what follows the plan should
    be read now. `is_coalesced`: batches may be larger than they were produced.
    """

    spans: list[Span]
    resume_offset: int
    error: ExtentError | None = None
    is_ahead_due: bool = False
    is_coalesced: bool = False


class Gatherer:
    """Gets spans of several partitions at once: a fetch waits for its slowest read only."""

    def __init__(self, cache: ExtentCache) -> None:
        self._cache = cache
        self._coalescer = Coalescer(cache)

    async def gather(self, plans: Sequence[Plan], may_coalesce: bool = True) -> list[Gathered]:
        """One Gathered a plan; errors are in it. A plan with a small limit is never coalesced."""
        runs: list[Sequence[Piece]] = []
        found = []
        coalesced = [may_coalesce and plan.max_bytes >= SMALLEST_COALESCED_ANSWER for plan in plans]
        for plan, is_coalesced in zip(plans, coalesced, strict=True):
            found.append(self._find(plan, runs, is_coalesced))
        loaded: Found = await self._cache.read(runs) if runs else {}
        return [
            self._finish(plan, slots, loaded, is_coalesced)
            for plan, slots, is_coalesced in zip(plans, found, coalesced, strict=True)
        ]

    def _find(
        self, plan: Plan, runs: list[Sequence[Piece]], is_coalesced: bool
    ) -> list[Span | _Missing]:
        """What there is of the plan, in order; runs of what is missing are added to `runs`."""
        slots: list[Span | _Missing] = []
        pieces = plan.pieces
        missing = index = 0
        while index < len(pieces):
            span = None
            if is_coalesced:
                span = self._cache.find_coalesced(pieces, index, plan.asked_offset)
            span = span or self._cache.find(pieces, index)
            if span is None:
                index += 1
                continue
            _add_missing(pieces, missing, index, slots, runs)
            slots.append(span)
            missing = index = index + span.end_piece - span.first_piece
            if span.cut_offset is not None:
                return slots
        _add_missing(pieces, missing, index, slots, runs)
        return slots

    def _finish(
        self, plan: Plan, slots: list[Span | _Missing], loaded: Found, is_coalesced: bool
    ) -> Gathered:
        gathered = Gathered([], plan.resume_offset, is_coalesced=is_coalesced)
        for slot in slots:
            if isinstance(slot, Span):
                gathered.spans.append(slot)
                if slot.cut_offset is not None:
                    gathered.resume_offset = slot.cut_offset
            else:
                gathered.is_ahead_due = True
                if not _take_loaded(gathered, plan.pieces, slot, loaded):
                    break
        for span in gathered.spans:
            load = span.stretch.load
            if load.wants_ahead:
                load.wants_ahead = False
                gathered.is_ahead_due = True
        if not is_coalesced:
            return gathered
        try:
            gathered.spans = self._coalescer.merge(gathered.spans)
        except ExtentError as error:
            gathered.error, gathered.spans = error, []
        return gathered


def _add_missing(
    pieces: Sequence[Piece],
    first: int,
    end: int,
    slots: list[Span | _Missing],
    runs: list[Sequence[Piece]],
) -> None:
    if first < end:
        slots.append((first, end))
        runs.append(pieces[first:end])


def _take_loaded(
    gathered: Gathered, pieces: Sequence[Piece], missing: _Missing, loaded: Found
) -> bool:
    """Add the spans of what was missing, until an error; False: there was one."""
    index, end = missing
    wanted = pieces[:end]
    while index < end:
        place = loaded[pieces[index][:3]]
        if isinstance(place, ExtentError):
            gathered.error = place
            gathered.resume_offset = pieces[index].base_offset
            return False
        stretch, first = place
        span = stretch.span(first, wanted, index)
        assert span is not None, "what was read is not coalesced"
        gathered.spans.append(span)
        index += span.end_piece - span.first_piece
    return True
