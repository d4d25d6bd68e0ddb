"""The options that say which settings a command has."""

from typing import Annotated

from lacuna.cli.command_line import option

_SETTINGS = "Settings"

Assignments = Annotated[
    list[str] | None,
    option(
        "--set",
        has_variable=False,
        metavar="KEY=VALUE",
        help="One setting, as in the config file. May be repeated.",
        panel=_SETTINGS,
    ),
]
PrintConfig = Annotated[
    bool,
    option(
        "--print-config",
        has_variable=False,
        help="Print the settings and their sources, then exit.",
        panel=_SETTINGS,
    ),
]
