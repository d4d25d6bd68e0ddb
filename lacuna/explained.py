"""What a read_committed consumer gets of a partition and why, asked of the control plane."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent.fetch.explain import Fate, Row, explain
from controlplane.client import ControlClient, confirm
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions
from controlplane.v1.transactions_pb2 import ListTransactions
from lacuna.errors import UserError

#: Rows of one explanation, unless the caller wants another bound.
MAX_STRETCHES = 1000


class NothingToExplainError(UserError):
    """There is no such topic, partition or range; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One row of an explanation: neighbouring extents that were dropped with one transaction, or one row as it is.

    `row` has the sums of offsets and bytes, and the first extent's object; `extents` says how many there are.
    `hole_end`: where a consumer that is in this hole goes on, -1 where it is in none.
    """

    row: Row
    extents: int = 1
    hole_end: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Stretches for [first_offset, end_offset) of a partition, with its bounds.

    `transactional_ids` names the producers that the control plane still knows, by producer id. `more_from` is the first
    offset that was left out where there were too many stretches, else -1.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    stretches: Sequence[Stretch]
    transactional_ids: dict[int, str]
    more_from: int = -1


async def explain_partition(
    control: ControlClient,
    topic: str,
    partition: int,
    first_offset: int | None = None,
    end_offset: int | None = None,
    max_stretches: int = MAX_STRETCHES,
) -> Explanation:
    """Explains a range of a partition; by default all of it, up to the high watermark.

    Raises NothingToExplainError, ControlPlaneUnavailable.
    """
    await confirm(control)  # others may have made the topic just now
    await control.cluster.ready()
    found = control.cluster.topics_by_name.get(topic)
    if found is None:
        raise NothingToExplainError(f"there is no topic {topic!r}; `lacuna topics list` shows them")
    if not 0 <= partition < found.partition_count:
        raise NothingToExplainError(
            f"topic {topic!r} has partitions 0 to {found.partition_count - 1}, not {partition}"
        )
    wanted = TopicPartition(topic_id=found.topic_id, partition=partition)
    read = await control.call(Command(read_partitions=ReadPartitions(partitions=[wanted])))
    (state,) = read.partitions_read.partitions
    if state.error_code != ErrorCode.NONE:
        raise NothingToExplainError(f"topic {topic!r} was deleted meanwhile")
    view = control.partition(found.topic_id, partition)
    await view.ready()
    first = max(view.log_start_offset, first_offset or 0)
    end = view.high_watermark if end_offset is None else min(end_offset, view.high_watermark)
    if first >= end and (first_offset, end_offset) != (None, None):
        raise NothingToExplainError(
            f"{topic} [{partition}] begins at offset {view.log_start_offset} and ends before "
            f"{view.high_watermark}: give a --from and --to between"
        )
    rows = explain(view.extents, view.dead, first, end, view.last_stable_offset)
    stretches, more_from = take(stretch(rows), max_stretches)
    listed = await control.call(Command(list_transactions=ListTransactions(duration_ms=-1)))
    return Explanation(
        topic=topic,
        partition=partition,
        first_offset=first,
        end_offset=end,
        log_start_offset=view.log_start_offset,
        last_stable_offset=view.last_stable_offset,
        high_watermark=view.high_watermark,
        stretches=stretches,
        more_from=more_from,
        transactional_ids={
            entry.producer_id: entry.transactional_id
            for entry in listed.transactions_listed.transactions
        },
    )


def stretch(rows: Iterable[Row]) -> Iterator[Stretch]:
    """Puts together what was dropped with one transaction, and says where each hole ends."""
    waiting: list[Stretch] = []
    for row in rows:
        last = waiting[-1] if waiting else None
        if row.fate in (Fate.DROPPED, Fate.HOLE):
            if last is not None and _continues(last.row, row):
                waiting[-1] = _joined(last, row)
            else:
                waiting.append(Stretch(row))
            continue
        # A filler begins where the hole does, and ends with it; anything else begins where it ends.
        end = row.next_offset if row.fate is Fate.FILLER else row.first_offset
        yield from (replace(each, hole_end=end) for each in waiting)
        waiting.clear()
        yield Stretch(row)
    yield from (replace(each, hole_end=waiting[-1].row.next_offset) for each in waiting)


def take(stretches: Iterable[Stretch], most: int) -> tuple[list[Stretch], int]:
    """The first `most`, and the offset of the next one, -1 where there is none."""
    taken: list[Stretch] = []
    for each in stretches:
        if len(taken) == most:
            return taken, each.row.first_offset
        taken.append(each)
    return taken, -1


def _continues(last: Row, row: Row) -> bool:
    return (
        last.fate is row.fate is Fate.DROPPED
        and last.next_offset == row.first_offset
        and last.transaction == row.transaction
        and last.producer_id == row.producer_id
    )


def _joined(last: Stretch, row: Row) -> Stretch:
    joined = replace(last.row, next_offset=row.next_offset, size=last.row.size + row.size)
    return Stretch(joined, last.extents + 1)
