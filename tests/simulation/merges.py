"""Checks merging: a missing or damaged object affects only the work that has to read it, and only occasionally."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from lacuna.agent.housekeeping.merging import Merger, MergeReport, SegmentKey
from lacuna.logstore.objects.store import DamagedObjectError, ObjectNotFoundError, ShortReadError
from lacuna.logstore.segments import CorruptSegmentError
from tests.simulation.history import History
from tests.simulation.loop import SimulatedLoop

#: For how long merging leaves a segment alone at which it has failed.
ALONE_SECONDS: Final = 30.0
OF_ONE_OBJECT: Final = (
    CorruptSegmentError,
    DamagedObjectError,
    ObjectNotFoundError,
    ShortReadError,
)


@contextmanager
def watched(loop: SimulatedLoop, history: History) -> Iterator[None]:
    """Checks every merge of the agents."""
    run_once, note = Merger.run_once, Merger._note
    failed: dict[tuple[Merger, SegmentKey], float] = {}

    async def run(self: Merger) -> MergeReport | None:
        try:
            report = await run_once(self)
        except OF_ONE_OBJECT as error:
            history.wrong(f"merging has stopped at one object: {error}")
            raise
        if report is not None:
            history.counts["partitions merged"] += report.partitions
            history.counts["partitions not merged, for an object"] += report.failed
        return report

    def noted(self: Merger, merged: Sequence[Any], reasons: Mapping[SegmentKey, Exception]) -> None:
        note(self, merged, reasons)
        now = loop.time()
        for segment, error in reasons.items():
            if now - failed.get((self, segment), -ALONE_SECONDS) < ALONE_SECONDS:
                history.wrong(f"merging does not leave alone what has failed: {error}")
            failed[self, segment] = now
        for each in merged:
            extents = each.plan.extents
            for segment in zip(extents.lease_ids, extents.sequences, strict=True):
                failed.pop((self, segment), None)

    with mock.patch.multiple(Merger, run_once=run, _note=noted):
        yield
