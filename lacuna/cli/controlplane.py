"""`lacuna controlplane`: runs only a control plane, until Ctrl-C."""

from functools import partial
from pathlib import Path
from typing import Annotated

import click

from lacuna.addresses import parse_address
from lacuna.cli.command_line import option
from lacuna.cli.config_options import Assignments, Config, PrintConfig
from lacuna.cli.configuration import Configuration, configure, print_configuration
from lacuna.cli.losses import go_on_without
from lacuna.cli.options import DEFAULT_DATA, AcceptLoss, Verbose, folder
from lacuna.cli.running import CONTROL_READY, log_to_stderr, run, say
from lacuna.controlplane.service import serve
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.embedded import JOURNAL_NAME, group_settings, make_folder
from lacuna.pace import LoopLoad, MeasuredPace


def controlplane(
    context: click.Context,
    listen: Annotated[
        str,
        option(
            "--listen",
            "-l",
            key="controlplane.listen",
            help="Address for agents to connect to: HOST:PORT or unix:PATH.",
        ),
    ] = "127.0.0.1:7070",
    data: Annotated[
        Path,
        option(
            "--data",
            "-d",
            key="data",
            parser=folder,
            metavar="PATH",
            help="Folder of the journal. It is created if missing.",
        ),
    ] = DEFAULT_DATA,
    accept_loss: AcceptLoss = False,
    config: Config = None,
    assignments: Assignments = None,
    print_config: PrintConfig = False,
    verbose: Verbose = False,
) -> None:
    """Runs only a control plane, which keeps topics, transactions, groups and the index of records.

    It is a gRPC service with the standard health service. Prints `control plane: ADDRESS`
    once agents can connect: `lacuna agent --control ADDRESS`.
    """
    log_to_stderr(verbose)
    configuration = configure(context, config, assignments, {})
    if print_config:
        print_configuration(context, configuration)
        return
    if not listen.startswith("unix:"):
        parse_address(listen)
    make_folder(data)
    if accept_loss:
        go_on_without(data)
    run(partial(_controlplane, listen, data, configuration))


async def _controlplane(listen: str, data: Path, configuration: Configuration) -> None:
    running = await serve(
        listen,
        str(data / JOURNAL_NAME),
        configuration.service(),
        pace=MeasuredPace(LoopLoad()),
        prepare=group_settings(configuration.make(GroupSettings)),
    )
    try:
        say(f"{CONTROL_READY}{running.address}")
        await running.failed()
    finally:
        await running.close()
