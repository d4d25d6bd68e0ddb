"""`lacuna console`: runs only the web console, for a cluster that runs elsewhere."""

from dataclasses import dataclass
from typing import Annotated

from lacuna.cli.command_line import option, takes
from lacuna.cli.configuration import Configuration
from lacuna.cli.console_options import check_installed, decoding_of
from lacuna.cli.location import find_place
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Control, Data, Verbose
from lacuna.cli.places import DEFAULT_CONSOLE, ConsoleVisitors, LogLines
from lacuna.cli.running import forever, log_to_stderr, run, say_ready
from lacuna.console.listening import listen

CONSOLE_READY = "console: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    control: Control = None
    data: Data = None
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    listen_on: Annotated[
        str,
        option(
            "--listen",
            "-l",
            envvar="LACUNA_CONSOLE_LISTEN",
            metavar="HOST:PORT",
            help="Address for browsers to connect to.",
        ),
    ] = DEFAULT_CONSOLE
    settings: Annotated[Configuration, takes(ConsoleVisitors, LogLines)]
    verbose: Verbose = False


def console(given: Given) -> None:
    """Runs the web console for a cluster that runs elsewhere.

    The console reads messages from an agent and everything else from the control plane, whose address the agent knows.
    `lacuna up` already serves a console. If the agents require passwords, so does the console. Otherwise, every visitor
    can read all records.
    """
    log_to_stderr(given.verbose, given.settings.make(LogLines).format)
    check_installed()
    place = find_place(given.control, given.data, given.bootstrap)
    visitors = given.settings.make(ConsoleVisitors)
    decoding = decoding_of(visitors)
    with listen(given.listen_on, "--listen") as listener:
        from lacuna.console.serving import console_of_others

        async def serve() -> None:
            async with console_of_others(
                listener,
                place,
                given.bootstrap,
                names=visitors.names(),
                may_write=visitors.writes,
                decoding=decoding,
            ) as served:
                say_ready(f"{CONSOLE_READY}http://{served}")
                await forever()

        run(serve)
