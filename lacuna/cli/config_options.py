"""The options that say where settings come from."""

from pathlib import Path
from typing import Annotated

import click

from lacuna.cli.command_line import option
from lacuna.cli.configuration import ConfigFile, options_of, read_file


def _take_file(
    context: click.Context, _parameter: click.Parameter, path: Path | None
) -> ConfigFile | None:
    """Makes the values of a config file the defaults of the options that have keys."""
    if path is None:
        return None
    file = read_file(path)
    context.default_map = {
        option.name or "": file.values[option.key]
        for option in options_of(context.command)
        if option.key in file.values
    }
    return file


_SETTINGS = "Settings"

Config = Annotated[
    ConfigFile | None,
    option(
        "--config",
        "-c",
        envvar="LACUNA_CONFIG",
        parser=Path,
        is_eager=True,
        callback=_take_file,
        metavar="FILE",
        help="A TOML file of settings. docs/configuration.md lists them.",
        panel=_SETTINGS,
    ),
]
Assignments = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="KEY=VALUE",
        help="One setting, as in the file. May be repeated.",
        panel=_SETTINGS,
    ),
]
PrintConfig = Annotated[
    bool,
    option(
        "--print-config",
        help="Print the settings that would be used, and where each comes from, then exit.",
        panel=_SETTINGS,
    ),
]
