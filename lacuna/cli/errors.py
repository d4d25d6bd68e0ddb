"""Reports errors that the user can correct, in one line. The exit code is 1, or 2 for an invalid command line."""

from typing import Any, NoReturn

import click

from lacuna.base.errors import UserError
from lacuna.cli.hints import hint_for
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.journal.journal import (
    REMEDY,
    JournalCorrupt,
    JournalError,
    JournalLoss,
)
from lacuna.logstore.objects import ObjectStoreError
from lacuna.logstore.segments import CorruptSegmentError, ForeignStoreError
from lacuna.pipeline.errors import JobInterrupted, PipelineError

#: The exit code that shells report for a command that Ctrl-C ended.
INTERRUPTED = 130

#: Any other error is a bug and shows its traceback.
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
    """Prints a one-line error and returns the exit code. Returns None, and prints nothing, if the error is a bug."""
    if isinstance(error, MENDABLE):
        print_error(_message(error))
        return INTERRUPTED if isinstance(error, JobInterrupted) else 1
    if isinstance(error, click.Abort):
        is_interrupt = isinstance(error.__cause__, KeyboardInterrupt)
        print_error("stopped" if is_interrupt else "cancelled; nothing was changed")
        return INTERRUPTED if is_interrupt else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return 2  # the help is already on the screen
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "lacuna"
    print_error(f"{_explain(error, context)}; see `{name} --help`")
    return 2


def _message(error: Exception) -> str:
    if isinstance(error, JournalCorrupt) and not isinstance(error, JournalLoss):
        return f"{error}. {REMEDY}"
    return str(error)


def _explain(error: Any, context: Any) -> str:
    """Return what is wrong with the command line and, if known, how to correct it."""
    option = getattr(error, "option_name", None)
    if option is not None and context is not None and (hint := hint_for(option, context.command)):
        return f"this command does not have the option {option}: {hint}"
    return str(error.format_message()).rstrip(".")


def print_error(message: str) -> None:
    """Prints a message to standard error as one line."""
    from lacuna.cli.console import err, printable

    line = printable(" ".join(message.split()))
    err.print(f"lacuna: {line}", style="red", markup=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Raises UserError, so that the command ends with this message and exit code 1."""
    raise UserError(message)
