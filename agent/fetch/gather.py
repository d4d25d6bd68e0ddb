"""From plans to entries: out of the cache, read together where they are missing, read ahead."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.fetch.cache import Entry, ExtentCache, ExtentError
from agent.fetch.plan import Key, Piece, Plan
from agent.fetch.synthesize import Coalescer


@dataclass(slots=True)
class Gathered:
    """The entries of a plan, in order, up to the piece that could not be had.

    There `resume_offset` then is, and `error` says why. `is_ahead_due`: what follows the plan should
    be read now.
    """

    entries: list[Entry]
    resume_offset: int
    error: ExtentError | None = None
    is_ahead_due: bool = False


class Gatherer:
    """Gets entries of several partitions at once: a fetch waits for its slowest read only."""

    def __init__(self, cache: ExtentCache) -> None:
        self._cache = cache
        self._coalescer = Coalescer(cache)

    async def gather(self, plans: Sequence[Plan]) -> list[Gathered]:
        """One Gathered a plan; errors are in it."""
        missing: list[Piece] = []
        found = [self._find(plan.pieces, missing) for plan in plans]
        loaded: dict[Key, Entry | ExtentError] = {}
        if missing:
            loaded = await self._cache.read(missing)
        return [self._finish(plan, slots, loaded) for plan, slots in zip(plans, found, strict=True)]

    def _find(self, pieces: list[Piece], missing: list[Piece]) -> list[Entry | Piece]:
        """An entry for every piece (or for several, coalesced); what is missing stands as it is."""
        slots: list[Entry | Piece] = []
        index = 0
        while index < len(pieces):
            entry = self._cache.get_coalesced(pieces, index)
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
        self, plan: Plan, slots: list[Entry | Piece], loaded: dict[Key, Entry | ExtentError]
    ) -> Gathered:
        gathered = Gathered([], plan.resume_offset)
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
        try:
            gathered.entries = self._coalescer.merge(gathered.entries)
        except ExtentError as error:
            gathered.error, gathered.entries = error, []
        return gathered
