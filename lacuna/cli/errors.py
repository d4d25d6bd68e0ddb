"""Errors that the user can put right: one line that says what to do, and exit code 1 (2 for a wrong command line)."""

from typing import Any, NoReturn

import click

from lacuna.base.errors import UserError
from lacuna.cli.hints import meant
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

#: The exit code that shells give a command ended by Ctrl-C.
INTERRUPTED = 130

#: Any other error is a bug of ours and shows its traceback.
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
    """Prints an error in one line and returns the exit code; returns None, printing nothing, if it is a bug of ours."""
    if isinstance(error, MENDABLE):
        print_error(_message(error))
        return INTERRUPTED if isinstance(error, JobInterrupted) else 1
    if isinstance(error, click.Abort):
        is_interrupt = isinstance(error.__cause__, KeyboardInterrupt)
        print_error("stopped" if is_interrupt else "cancelled; nothing was done")
        return INTERRUPTED if is_interrupt else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return 2  # the help is on the screen already
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "lacuna"
    print_error(f"{_told(error, context)}; `{name} --help` explains")
    return 2


def _message(error: Exception) -> str:
    if isinstance(error, JournalCorrupt) and not isinstance(error, JournalLoss):
        return f"{error}. {REMEDY}"
    return str(error)


def _told(error: Any, context: Any) -> str:
    """What is wrong with the command line and, if known, what to write instead."""
    option = getattr(error, "option_name", None)
    if option is not None and context is not None and (hint := meant(option, context.command)):
        return f"there is no option {option} here: {hint}"
    return str(error.format_message()).rstrip(".")


def print_error(message: str) -> None:
    """Prints a message in one line to standard error."""
    from lacuna.cli.console import err, printable

    line = printable(" ".join(message.split()))
    err.print(f"lacuna: {line}", style="red", markup=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Raises UserError, which ends the command with this one line and exit code 1."""
    raise UserError(message)
