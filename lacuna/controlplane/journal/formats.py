"""The formats of journals: this version's and all earlier ones.

A leader raises a lower format number to its own, after which earlier versions reject the journal.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lacuna.controlplane.journal.journal import JournalOfAnotherVersion, JournalUnfinished

#: The format of a journal that is still being copied to its place. Every version rejects it.
UNFINISHED: Final = 0


def check_journal_format(what: str, found: object, newest: int) -> None:
    """Check the format of a whole journal, like `check_format`. Also raises JournalUnfinished."""
    if type(found) is int and found == UNFINISHED:
        raise JournalUnfinished("this is an unfinished copy of a journal")
    check_format(what, found, newest)


def check_format(what: str, found: object, newest: int) -> None:
    """Raise JournalOfAnotherVersion unless `found`, the format of `what`, is between 1 and `newest`."""
    if type(found) is not int or not 1 <= found <= newest:
        raise JournalOfAnotherVersion(
            f"{what} is {found}, but this version reads only up to {newest}"
        )


@contextmanager
def formats_of(name: str) -> Iterator[None]:
    """Prefix errors raised by the two functions above with the journal's name."""
    try:
        yield
    except (JournalOfAnotherVersion, JournalUnfinished) as error:
        raise type(error)(f"{name}: {error.what}") from error
