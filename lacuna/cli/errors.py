"""Errors that whoever typed the command can mend: one line that says what to do, exit code 1."""

from typing import NoReturn

from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.journal.journal import JournalError
from lacuna.errors import UserError
from logstore.objects import ObjectStoreError
from logstore.segments import ForeignStoreError

#: Anything else is our own mistake, and shows its trace.
MENDABLE = (
    CommandRefused,
    ControlPlaneUnavailable,
    ForeignStoreError,
    JournalError,
    ObjectStoreError,
    OSError,
    UserError,
)


def print_error(message: str) -> None:
    """One line on the standard error output."""
    from lacuna.cli.console import err

    line = " ".join(message.split())
    err.print(f"lacuna: {line}", style="red", markup=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Ends the command with one line that says what to do, exit code 1."""
    raise UserError(message)
