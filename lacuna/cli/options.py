"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Control = Annotated[
    str | None,
    typer.Option(
        "--control",
        envvar="LACUNA_CONTROL",
        help="The control plane: HOST:PORT, or unix:PATH.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", "-d", envvar="LACUNA_DATA", help="The data folder; ./data by default."),
]
