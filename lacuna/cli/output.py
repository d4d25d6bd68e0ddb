"""How a command prints its tables: the options, and where its context keeps what they say."""

from typing import Any, Final

import click

#: Where a command's context keeps how it prints tables.
OUTPUT: Final = "lacuna.output"
OUTPUTS: Final = ("table", "tsv", "json")


def output_options() -> tuple[dict[str, Any], dict[str, Any]]:
    """The options --output and --json, as arguments of `Option`."""

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
