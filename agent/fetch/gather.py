"""From plans to entries: out of the cache, read together where they are missing, read ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.fetch.cache import Entry, ExtentCache, ExtentError
from agent.fetch.plan import Key, Piece, Plan
from agent.fetch.synthesize import COALESCED_BATCH_BYTES, Coalescer

# A smaller answer is made of the batches as they are: whole ones up to the limit (KIP-74, S15).
SMALLEST_COALESCED_ANSWER: Final = 2 * COALESCED_BATCH_BYTES


@dataclass(slots=True)
class Gathered:
    """The entries of a plan, in order, up to the piece that could not be had.

    There `resume_offset` then is, and `error` says why. `is_ahead_due`: what follows the plan should
    be read now. `is_coalesced`: batches may be larger than they were
    produced.
    """

    entries: list[Entry]
    resume_offset: int
    error: ExtentError | None = None
    is_ahead_due: bool = False
    is_coalesced: bool = False


class Gatherer:
    """Gets entries of several partitions at once: a fetch waits for its slowest read only."""

    def __init__(self, cache: ExtentCache) -> None:
        self._cache = cache
        self._coalescer = Coalescer(cache)

    async def gather(self, plans: Sequence[Plan], may_coalesce: bool = True) -> list[Gathered]:
        """One Gathered a plan; errors are in it. A plan with a small limit is never coalesced."""
        missing: list[Piece] = []
        coalesced = [may_coalesce and plan.max_bytes >= SMALLEST_COALESCED_ANSWER for plan in plans]
        found = [
            self._find(plan.pieces, missing, is_coalesced)
            for plan, is_coalesced in zip(plans, coalesced, strict=True)
        ]
        loaded: dict[Key, Entry | ExtentError] = {}
        if missing:
            loaded = await self._cache.read(missing)
        return [
            self._finish(plan, slots, loaded, is_coalesced)
            for plan, slots, is_coalesced in zip(plans, found, coalesced, strict=True)
        ]

    def _find(
        self, pieces: list[Piece], missing: list[Piece], is_coalesced: bool
    ) -> list[Entry | Piece]:
        """An entry for every piece (or for several, coalesced); what is missing stands as it is."""
        slots: list[Entry | Piece] = []
        index = 0
        while index < len(pieces):
            entry = self._cache.get_coalesced(pieces, index) if is_coalesced else None
            if entry is None:
                entry = self._cache.get(pieces[index])
            if entry is None:
                missing.append(pieces[index])
                slots.append(pieces[index])
                index += 1
            else:
                slots.append(entry)
                index += entry.piece_count
        return slots

    def _finish(
        self,
        plan: Plan,
        slots: list[Entry | Piece],
        loaded: dict[Key, Entry | ExtentError],
        is_coalesced: bool,
    ) -> Gathered:
        gathered = Gathered([], plan.resume_offset, is_coalesced=is_coalesced)
        for slot in slots:
            if isinstance(slot, Entry):
                entry = slot
            else:
                gathered.is_ahead_due = True
                result = loaded[slot.key]
                if isinstance(result, ExtentError):
                    gathered.error = result
                    gathered.resume_offset = slot.base_offset
                    break
                entry = result
            if entry.wants_ahead:
                entry.wants_ahead = False
                gathered.is_ahead_due = True
            gathered.entries.append(entry)
        if not is_coalesced:
            return gathered
        try:
            gathered.entries = self._coalescer.merge(gathered.entries)
        except ExtentError as error:
            gathered.error, gathered.entries = error, []
        return gathered
