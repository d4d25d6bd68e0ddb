"""The swap of a unit, and what became of its ranges."""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from controlplane.client import ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ExtentsSwapped, SwapExtents
from pipeline.compaction.planning import PlannedRange, Unit
from pipeline.compaction.report import Trouble, Work
from pipeline.compaction.rewriting import TaskResult
from pipeline.compaction.swapping import prepare_swap
from pipeline.control import ControlPlane, check
from pipeline.extents import PartitionKey
from pipeline.holding import JobHold, hold_lost

#: A swap whose answer was lost is sent again for so many seconds.
_SWAP_AGAIN_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5

_REASONS: Final = {
    ErrorCode.PLAN_STALE: "it changed while it was compacted; the next run plans it again",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "its topic was deleted meanwhile",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """What became of a unit's ranges, and what it took.

    `refused` is told for all that were not taken, `stale` are those among them that a new plan may take.
    `failed` is told for all that failed, `damaged` are those among them that could not be read.
    """

    swapped: Sequence[PlannedRange] = ()
    stale: Sequence[PlannedRange] = ()
    refused: Sequence[Trouble] = ()
    failed: Sequence[Trouble] = ()
    damaged: Sequence[PlannedRange] = ()
    work: Work = field(default_factory=Work)

    def without_refusals(self, keys: Collection[PartitionKey]) -> Self:
        """The same, but what is told of these partitions."""
        names = {(found.topic, found.partition) for found in self.stale if found.key in keys}
        refused = [each for each in self.refused if (each.topic, each.partition) not in names]
        return replace(self, refused=refused)


def commit(
    control: ControlPlane, unit: Unit, lease_id: int, results: Sequence[TaskResult]
) -> UnitOutcome:
    """Swaps in what the tasks have written.

    Raises ControlPlaneUnavailable, CommandRefused; StaleMetadataError where the lease was lost.
    """
    prepared = prepare_swap(unit, lease_id, results)
    codes: Sequence[int] = ()
    if prepared.ranges:
        answer = _swap(control, prepared.command)
        if answer.error_code == ErrorCode.LEASE_EXPIRED:
            raise hold_lost(JobHold.held)
        check(answer.error_code, "the swap")
        codes = answer.error_codes
    by_code = list(zip(prepared.ranges, codes, strict=True))
    return UnitOutcome(
        swapped=[found for found, code in by_code if code == ErrorCode.NONE],
        stale=[found for found, code in by_code if code == ErrorCode.PLAN_STALE],
        refused=troubles(
            (found, _reason(code)) for found, code in by_code if code != ErrorCode.NONE
        ),
        failed=troubles([(unit.ranges[at], text) for at, text in prepared.errors.items()]),
        damaged=[unit.ranges[at] for at in prepared.errors],
        work=_work(unit, results),
    )


def troubles(found: Iterable[tuple[PlannedRange, str]]) -> list[Trouble]:
    """Ranges with the reasons why they stay."""
    return [Trouble(each.topic, each.partition, reason) for each, reason in found]


def _reason(code: int) -> str:
    for known, reason in _REASONS.items():
        if code == known:
            return reason
    return f"the control plane answered error {code}"


def _swap(control: ControlPlane, command: SwapExtents) -> ExtentsSwapped:
    """The same command gets the same answer, so a lost one is asked for again."""
    give_up = time.monotonic() + _SWAP_AGAIN_SECONDS
    while True:
        try:
            return control.call(Command(swap_extents=command)).extents_swapped
        except ControlPlaneUnavailable:
            if time.monotonic() > give_up:
                raise
            time.sleep(_PAUSE_SECONDS)


def _work(unit: Unit, results: Sequence[TaskResult]) -> Work:
    return Work(
        tasks=len(unit.tasks),
        puts=sum(result.puts for result in results),
        gets=sum(result.gets for result in results),
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        aborted_bytes_not_read=sum(found.aborted_bytes for found in unit.ranges),
        expired_bytes_not_read=sum(found.expired_bytes for found in unit.ranges),
    )
