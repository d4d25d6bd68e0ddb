"""Plans the offsets that a run exports, and divides them into tasks, without side effects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.pipeline.errors import DataLossError
from lacuna.pipeline.extents import PartitionLog

#: The approximate number of stored bytes that a task reads.
TASK_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Slice:
    """Pieces of one partition, of which the offsets [first_offset, end_offset) are exported."""

    partition: int
    first_offset: int
    end_offset: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Slices that one Spark task exports, one after another."""

    index: int
    slices: tuple[Slice, ...]


def plan_ranges(
    logs: Sequence[PartitionLog],
    positions: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    allow_loss: bool,
) -> dict[int, tuple[int, int]]:
    """Returns the offsets [first, end) to export, by partition, up to `ends`; empty if there is nothing new.

    `positions` are the next offsets after the last committed run. In the first run, which has none, each partition
    starts at its log start; a partition that was added later starts at 0. Raises DataLossError if retention has deleted
    offsets that were not exported, unless `allow_loss`.
    """
    ranges: dict[int, tuple[int, int]] = {}
    lost: list[str] = []
    for log in logs:
        start = log.log_start_offset
        first = start if not positions else positions.get(log.partition, 0)
        if start > first:
            lost.append(f"{log.partition} ({first} to {start - 1})")
            first = start
        ranges[log.partition] = (first, max(first, ends.get(log.partition, 0)))
    if lost and not allow_loss:
        raise DataLossError(
            f"retention has overtaken the export of {logs[0].topic}: offsets that had not been exported are "
            f"gone from partitions {', '.join(lost)}; continue without them with "
            "--allow-loss, and export more often or keep records for longer"
        )
    return ranges


def plan_tasks(
    logs: Sequence[PartitionLog],
    ranges: Mapping[int, tuple[int, int]],
    task_bytes: int = TASK_BYTES,
) -> list[Task]:
    """Divides ranges into tasks that read about `task_bytes`, or one larger piece. Small partitions share tasks."""
    tasks: list[Task] = []
    slices: list[Slice] = []
    left = task_bytes
    for log in logs:
        for cut, size, is_full in _cut(log, ranges[log.partition], left, task_bytes):
            slices.append(cut)
            left -= size
            if is_full or left <= 0:
                tasks.append(Task(len(tasks), tuple(slices)))
                slices, left = [], task_bytes
    if slices:
        tasks.append(Task(len(tasks), tuple(slices)))
    return tasks


def _cut(
    log: PartitionLog, bounds: tuple[int, int], left: int, task_bytes: int
) -> Iterator[tuple[Slice, int, bool]]:
    """Yields the slices of a partition, each with its size in bytes and whether more of the partition follows."""
    pieces: list[Piece] = []
    size = 0
    for piece in log.pieces(*bounds):
        if pieces and size + piece.size > left:
            yield Slice(log.partition, *bounds, tuple(pieces)), size, True
            pieces, size, left = [], 0, task_bytes
        pieces.append(piece)
        size += piece.size
    if pieces:
        yield Slice(log.partition, *bounds, tuple(pieces)), size, False
