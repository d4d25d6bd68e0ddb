"""The options for the format of tables, and the key of the chosen format in a command's context."""

from typing import Any, Final

import click

#: The key under which a command's context keeps the format of its tables.
OUTPUT: Final = "lacuna.output"
OUTPUTS: Final = ("table", "tsv", "json")


def output_options() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments to create the options --output and --json."""

    def store(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            context.meta[OUTPUT] = value if isinstance(value, str) else "json"

    return (
        {
            "names": ["output", "--output", "-o"],
            "type": click.Choice(OUTPUTS),
            "expose_value": False,
            "callback": store,
            "help": "Output format. Default: a table on a terminal, otherwise columns separated by tabs.",
        },
        {
            "names": ["as_json", "--json"],
            "is_flag": True,
            "expose_value": False,
            "callback": store,
            "help": "The same as --output json.",
        },
    )
