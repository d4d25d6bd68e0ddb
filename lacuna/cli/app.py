"""The root command, which lists the others and prints one line for each error that the user can correct."""

import importlib.metadata
import sys
from io import TextIOWrapper
from pathlib import Path

import click

from lacuna.cli.command_line import Option
from lacuna.cli.config_file import Vocabulary, take_file, take_profile
from lacuna.cli.entries import CONTEXT, ENTRIES, LazyGroup


def _vocabulary() -> Vocabulary:
    """Import the keys and variables of all commands.

    This takes half a second, so it happens only for a name that the current command does not know.
    """
    from lacuna.cli import tables

    return tables


def _print_version(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"lacuna {importlib.metadata.version('lacuna-log')}")
        context.exit()


app = LazyGroup(
    "lacuna",
    ENTRIES,
    context_settings={**CONTEXT, "obj": _vocabulary},
    params=[
        Option(
            ["--config", "-c"],
            envvar="LACUNA_CONFIG",
            type=click.Path(path_type=Path),
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=take_file,
            show_envvar=True,
            help="A TOML file with settings, and with options for any command.",
        ),
        Option(
            ["--profile"],
            envvar="LACUNA_PROFILE",
            metavar="NAME",
            is_eager=True,
            expose_value=False,
            callback=take_profile,
            show_envvar=True,
            help="The profile that provides the address and security settings, instead of the current one.",
        ),
        Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            allow_from_autoenv=False,
            callback=_print_version,
            help="Print the version.",
        ),
    ],
    help="A Kafka-compatible, transactional log whose records live in an object store.\n\n    New "
    "here? `lacuna demo` shows in a few seconds what Lacuna does. `lacuna up` starts a cluster on\n    "
    "127.0.0.1:9092 for any Kafka client, with its data in ./data. `lacuna COMMAND --help` "
    "explains a command.\n    ",
)


def main() -> None:
    if isinstance(sys.stdout, TextIOWrapper):
        # Characters that the terminal's encoding lacks are printed as escapes, which is standard error's default
        # behaviour.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app.main(prog_name="lacuna", standalone_mode=False)
    except Exception as error:
        from lacuna.cli.errors import report

        code = report(error)
        if code is None:
            raise
    raise SystemExit(code)
