"""`lacuna explain`: what a read_committed consumer gets of a partition, and why."""

from typing import Annotated

import typer

from lacuna.cli.console import asynchronous
from lacuna.cli.explanation import show
from lacuna.cli.options import Control, Data
from lacuna.control import open_control
from lacuna.explained import explain_partition


@asynchronous
async def explain(
    topic: Annotated[str, typer.Argument(help="The topic's name.", show_default=False)],
    partition: Annotated[int, typer.Argument(help="The partition.", min=0)] = 0,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, help="First offset; the log's start if not given."),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--to", min=0, help="Offset to stop before; the log's end if not given."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows at most.")] = 100,
    control: Control = None,
    data: Data = None,
) -> None:
    """Shows what a read_committed consumer gets of a partition, and why.

    Which offsets are delivered, which were dropped and with which transaction, and where the consumer goes on behind
    each hole. Asks the control plane of a running cluster; changes nothing. Where the output is no terminal
    it is tab-separated.
    """
    async with open_control(control, data) as client:
        explanation = await explain_partition(client, topic, partition, first, end, limit)
    show(explanation)
