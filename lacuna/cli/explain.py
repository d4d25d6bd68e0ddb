"""`lacuna explain`: shows the records that a read_committed consumer receives from a partition, and why."""

from typing import Annotated

from lacuna.cli.command_line import argument, option
from lacuna.cli.console import asynchronous
from lacuna.cli.errors import fail
from lacuna.cli.explanation import show
from lacuna.cli.options import Control, Data
from lacuna.operating.control import open_control
from lacuna.operating.explained import explain_partition


@asynchronous
async def explain(
    topic: Annotated[str, argument(help="Name of the topic.", show_default=False)],
    partition: Annotated[int, argument(help="The partition.", min=0)] = 0,
    first: Annotated[
        int | None,
        option("--from", min=0, help="First offset to show. Default: the start of the log."),
    ] = None,
    end: Annotated[
        int | None,
        option("--to", min=0, help="Offset to stop before. Default: the end of the log."),
    ] = None,
    limit: Annotated[int, option("--limit", "-n", min=1, help="Maximum number of rows.")] = 100,
    control: Control = None,
    data: Data = None,
) -> None:
    """Shows which records of a partition a read_committed consumer receives, and why.

    It lists the offsets that are delivered, those that were dropped and by which transaction, and where the consumer
    continues after each hole. It queries the control plane of a running cluster and changes nothing. If the output is
    not a terminal, the columns are separated by tabs.
    """
    if first is not None and end is not None and first > end:
        fail(f"--from {first} is greater than --to {end}: swap them")
    async with open_control(control, data) as client:
        explanation = await explain_partition(client, topic, partition, first, end, limit)
    show(explanation)
