"""`lacuna controlplane`: a control plane alone, until Ctrl-C."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controlplane import machine
from controlplane.service import ServiceSettings, serve
from lacuna.addresses import parse_address
from lacuna.cli.options import DEFAULT_DATA, Verbose, folder
from lacuna.cli.running import CONTROL_READY, log_to_stderr, run, say
from lacuna.embedded import JOURNAL_NAME, MACHINE_NAME, make_folder
from lacuna.pace import LoopLoad, Pace


def controlplane(
    listen: Annotated[
        str,
        typer.Option("--listen", "-l", help="HOST:PORT or unix:PATH where agents connect."),
    ] = "127.0.0.1:7070",
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            "-d",
            envvar="LACUNA_DATA",
            parser=folder,
            metavar="PATH",
            help="Folder of the journal. Made where it is not there.",
        ),
    ] = DEFAULT_DATA,
    verbose: Verbose = False,
) -> None:
    """Runs a control plane alone: topics, transactions, groups, and which records count.

    A gRPC service with the standard health and reflection services. Prints `control plane: ADDRESS` once
    agents can connect: `lacuna agent --control ADDRESS`.
    """
    log_to_stderr(verbose)
    if not listen.startswith("unix:"):
        parse_address(listen)
    make_folder(data)
    run(partial(_controlplane, listen, data))


async def _controlplane(listen: str, data: Path) -> None:
    running = await serve(
        machine,
        MACHINE_NAME,
        listen,
        str(data / JOURNAL_NAME),
        ServiceSettings(),
        pace=Pace(LoopLoad()),
    )
    try:
        say(f"{CONTROL_READY}{running.address}")
        await running.failed()
    finally:
        await running.close()
