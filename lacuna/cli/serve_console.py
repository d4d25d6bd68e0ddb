"""`lacuna console`: the web console by itself, for a cluster that runs elsewhere."""

from typing import Annotated

from lacuna.cli.command_line import option
from lacuna.cli.console_options import check_installed, host_names
from lacuna.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_CONSOLE,
    Bootstrap,
    ConsoleHosts,
    ConsoleWrites,
    Control,
    Data,
    LogFormat,
    Verbose,
)
from lacuna.cli.running import TEXT, forever, log_to_stderr, run, say_ready
from lacuna.console.listening import listen
from lacuna.operating.control import find_control

CONSOLE_READY = "console: "


def console(
    control: Control = None,
    data: Data = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen_on: Annotated[
        str,
        option(
            "--listen",
            "-l",
            key="console.listen",
            metavar="HOST:PORT",
            help="Address for browsers to connect to.",
        ),
    ] = DEFAULT_CONSOLE,
    console_hosts: ConsoleHosts = "",
    console_writes: ConsoleWrites = False,
    verbose: Verbose = False,
    log_format: LogFormat = TEXT,
) -> None:
    """Runs the web console of a cluster that runs elsewhere.

    It asks the control plane for everything but messages, which it reads from an agent, so it needs both. `lacuna up`
    serves a console by itself. If the agents require passwords, the console does too. Otherwise, every visitor can
    read all records.
    """
    log_to_stderr(verbose, log_format)
    check_installed()
    place = find_control(control, data)
    names = host_names(console_hosts)
    with listen(listen_on, "--listen") as listener:
        from lacuna.console.serving import console_of_others

        async def serve() -> None:
            async with console_of_others(
                listener, place, bootstrap, names=names, may_write=console_writes
            ) as served:
                say_ready(f"{CONSOLE_READY}http://{served}")
                await forever()

        run(serve)
