"""`lacuna explain`: what a read_committed consumer gets of a partition, and why."""

from typing import Annotated

import typer

from controlplane.client import ControlPlaneUnavailable
from lacuna.cli.console import asynchronous, fail, out
from lacuna.cli.options import Control, Data
from lacuna.control import open_control
from lacuna.explained import NothingToExplainError, explain_partition, print_rows, table_of


@asynchronous
async def explain(
    topic: Annotated[str, typer.Argument(help="The topic's name.", show_default=False)],
    partition: Annotated[int, typer.Argument(help="The partition.", min=0, show_default=False)],
    first: Annotated[
        int | None, typer.Option("--from", help="First offset; the log's start if not given.")
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--to", help="Offset to stop before; the high watermark if not given."),
    ] = None,
    control: Control = None,
    data: Data = None,
) -> None:
    """Shows what a read_committed consumer gets of a partition.

    Says what is delivered, what was dropped, of which transaction, and where each hole ends. Asks the
    control plane of a running cluster: the one whose data folder is given, or `--control`.
    """
    try:
        async with open_control(control, data) as client:
            explanation = await explain_partition(client, topic, partition, first, end)
    except (NothingToExplainError, ControlPlaneUnavailable) as error:
        fail(str(error))
    if out.is_terminal:
        out.print(table_of(explanation))
    else:
        print_rows(explanation)
