"""What a read_committed consumer gets of a partition and why, asked of the control plane."""

from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.table import Table

from agent.fetch.explain import Fate, Row, explain
from controlplane.client import ControlClient
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions
from controlplane.v1.transactions_pb2 import ListTransactions


class NothingToExplainError(Exception):
    """There is no such topic or partition; the message says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Rows for [first_offset, end_offset) of a partition, with its bounds.

    `transactional_ids` names the producers that the control plane still knows, by producer id.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    rows: Sequence[Row]
    transactional_ids: dict[int, str]


async def explain_partition(
    control: ControlClient,
    topic: str,
    partition: int,
    first_offset: int | None = None,
    end_offset: int | None = None,
) -> Explanation:
    """Explains a range of a partition; by default all of it, up to the high watermark.

    Raises NothingToExplainError, ControlPlaneUnavailable.
    """
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
    listed = await control.call(Command(list_transactions=ListTransactions(duration_ms=-1)))
    return Explanation(
        topic=topic,
        partition=partition,
        first_offset=first,
        end_offset=end,
        log_start_offset=view.log_start_offset,
        last_stable_offset=view.last_stable_offset,
        high_watermark=view.high_watermark,
        rows=list(explain(view.extents, view.dead, first, end, view.last_stable_offset)),
        transactional_ids={
            entry.producer_id: entry.transactional_id
            for entry in listed.transactions_listed.transactions
        },
    )


_WHAT: dict[Fate, str] = {
    Fate.DELIVERED: "delivered",
    Fate.DROPPED: "dropped: its transaction was aborted",
    Fate.HOLE: "hole: these offsets hold nothing any more",
    Fate.FILLER: "filler: one control record moves the consumer on",
    Fate.UNDECIDED: "waits: at or behind the last stable offset",
}
_STYLE: dict[Fate, str] = {
    Fate.DELIVERED: "green",
    Fate.DROPPED: "red",
    Fate.HOLE: "dim",
    Fate.FILLER: "cyan",
    Fate.UNDECIDED: "yellow",
}


def owner(row: Row, transactional_ids: dict[int, str]) -> str:
    """Whose records a row is about: the transactional id, or the producer id where that is gone."""
    if not row.transaction:
        return "" if row.fate in (Fate.HOLE, Fate.FILLER) else "no transaction"
    name = transactional_ids.get(row.producer_id, f"producer {row.producer_id}")
    return f"{name}, epoch {row.producer_epoch}, transaction {row.transaction}"


def table_of(explanation: Explanation) -> Table:
    """The explanation as a table of the terminal."""
    table = Table(
        title=f"{explanation.topic} [{explanation.partition}]: what read_committed gets",
        caption=f"log start {explanation.log_start_offset}, "
        f"last stable offset {explanation.last_stable_offset}, "
        f"high watermark {explanation.high_watermark}",
        title_justify="left",
        caption_justify="left",
        header_style="bold",
    )
    for heading in ("offsets", "what", "whose", "bytes", "object"):
        table.add_column(heading, justify="right" if heading == "bytes" else "left")
    for row in explanation.rows:
        table.add_row(
            f"{row.first_offset}-{row.next_offset - 1}",
            _WHAT[row.fate],
            owner(row, explanation.transactional_ids),
            str(row.size) if row.size else "",
            row.segment,
            style=_STYLE[row.fate],
        )
    return table


def print_rows(explanation: Explanation) -> None:
    """The explanation as tab-separated lines, for scripts."""
    typer.echo("first_offset\tend_offset\twhat\twhose\tbytes\tobject")
    for row in explanation.rows:
        cells = (
            row.first_offset,
            row.next_offset,
            row.fate.value,
            owner(row, explanation.transactional_ids),
            row.size,
            row.segment,
        )
        typer.echo("\t".join(str(cell) for cell in cells))
