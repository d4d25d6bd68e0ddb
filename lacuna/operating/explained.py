"""Explains what a read_committed consumer receives from a partition and why, from the control plane's data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lacuna.agent.fetch.explain import Row, explain
from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.operating import questions
from lacuna.operating.control import topic_named

#: The maximum number of rows in one explanation, unless the caller gives another bound.
MAX_LINES = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an explanation. Neighbouring extents that were dropped by the same abort share a line.

    `row` spans the offsets and bytes of all `extents`, and names the first one's object. `hole_end` is the offset at
    which a consumer continues after a dropped range or a hole, or -1.
    """

    row: Row
    extents: int = 1
    hole_end: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The lines for offsets [first_offset, end_offset) of a partition, with the partition's bounds.

    `transactional_ids` maps producer ids to the transactional ids that the control plane still knows. `more_from` is
    the first offset omitted because there were too many lines, or -1.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    lines: Sequence[Line]
    transactional_ids: dict[int, str]
    more_from: int = -1


async def explain_partition(
    control: ControlClient,
    topic: str,
    partition: int,
    first_offset: int | None = None,
    end_offset: int | None = None,
    max_lines: int = MAX_LINES,
) -> Explanation:
    """Explains offsets [first_offset, end_offset), by default all. Raises UserError, ControlPlaneUnavailable."""
    # Another client may have just created the topic.
    found = topic_named(await questions.current(control), topic)
    if not 0 <= partition < found.partition_count:
        raise UserError(
            f"topic {topic!r} has partitions 0 to {found.partition_count - 1}, not {partition}"
        )
    wanted = TopicPartition(topic_id=found.topic_id, partition=partition)
    (state,) = await questions.read_partitions(control, [wanted])
    if state.error_code != ErrorCode.NONE:
        raise UserError(f"topic {topic!r} was deleted while it was being read")
    view = control.partition(found.topic_id, partition)
    await view.ready()
    first = max(view.log_start_offset, first_offset or 0)
    end = view.high_watermark if end_offset is None else min(end_offset, view.high_watermark)
    if first >= end and (first_offset, end_offset) != (None, None):
        raise UserError(
            f"{topic} [{partition}] begins at offset {view.log_start_offset} and ends before offset "
            f"{view.high_watermark}: choose --from and --to within that range"
        )
    rows = explain(view.extents, view.dead, first, end, view.last_stable_offset)
    lines, more_from = take(lines_of(rows), max_lines)
    return Explanation(
        topic=topic,
        partition=partition,
        first_offset=first,
        end_offset=end,
        log_start_offset=view.log_start_offset,
        last_stable_offset=view.last_stable_offset,
        high_watermark=view.high_watermark,
        lines=lines,
        more_from=more_from,
        transactional_ids={
            entry.producer_id: entry.transactional_id
            for entry in await questions.transactions(control)
        },
    )


def lines_of(rows: Iterable[Row]) -> Iterator[Line]:
    """Joins neighbouring rows that were dropped by the same abort.

    The `hole_end` of a dropped row, or of a hole left by compaction, is the next offset that a consumer can receive.
    """
    waiting: list[Line] = []
    for row in rows:
        last = waiting[-1] if waiting else None
        if row.fate in (Fate.DROPPED, Fate.HOLE):
            if last is not None and _continues(last.row, row):
                waiting[-1] = _joined(last, row)
            else:
                waiting.append(Line(row))
            continue
        # A filler lies in the hole and ends with it. Any other row begins at the end of the hole.
        end = row.next_offset if row.fate is Fate.FILLER else row.first_offset
        yield from (replace(each, hole_end=end) for each in waiting)
        waiting.clear()
        yield Line(row)
    yield from (replace(each, hole_end=waiting[-1].row.next_offset) for each in waiting)


def take(lines: Iterator[Line], most: int) -> tuple[list[Line], int]:
    """Return the first `most` lines, and the first offset after them, or -1 if there are no more."""
    taken, more = list(islice(lines, most)), next(lines, None)
    return taken, -1 if more is None else more.row.first_offset


def _continues(last: Row, row: Row) -> bool:
    return (
        last.fate is row.fate is Fate.DROPPED
        and last.next_offset == row.first_offset
        and last.transaction == row.transaction
        and last.producer_id == row.producer_id
    )


def _joined(last: Line, row: Row) -> Line:
    joined = replace(last.row, next_offset=row.next_offset, size=last.row.size + row.size)
    return Line(joined, last.extents + 1)
