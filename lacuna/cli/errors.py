"""Errors that whoever typed the command can mend: one line that says what to do, exit code 1."""

from typing import Any, NoReturn

import typer

from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.journal.journal import JournalError
from lacuna.errors import UserError
from logstore.objects import ObjectStoreError
from logstore.segments import CorruptSegmentError, ForeignStoreError
from pipeline.errors import PipelineError

#: Anything else is our own mistake, and shows its trace.
MENDABLE = (
    CommandRefused,
    ControlPlaneUnavailable,
    CorruptSegmentError,
    ForeignStoreError,
    JournalError,
    ObjectStoreError,
    OSError,
    PipelineError,
    UserError,
)


def report(error: Any) -> int | None:
    """Prints an error in its one line and returns the exit code; None where it is our own mistake."""
    if isinstance(error, MENDABLE):
        print_error(str(error))
        return 1
    if isinstance(error, typer.Abort):
        print_error("nothing was done")
        return 1
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is on the screen already
        return 2
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "lacuna"
    print_error(f"{error.format_message().rstrip('.')}; `{name} --help` explains")
    return 2


def print_error(message: str) -> None:
    """One line on the standard error output."""
    from lacuna.cli.console import err, printable

    line = printable(" ".join(message.split()))
    err.print(f"lacuna: {line}", style="red", markup=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Ends the command with one line that says what to do, exit code 1."""
    raise UserError(message)
