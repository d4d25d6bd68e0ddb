"""Which formats a journal may have: this version's own and all earlier ones.

Whoever leads raises the number that it finds to its own, so an earlier version refuses the journal from then on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lacuna.controlplane.journal.journal import JournalOfAnotherVersion, JournalUnfinished

#: The format of a journal that is still being copied to its place. Every version refuses it.
UNFINISHED: Final = 0


def check_journal_format(what: str, found: object, newest: int) -> None:
    """Do what `check_format` does for a whole journal. Raises JournalUnfinished too."""
    if type(found) is int and found == UNFINISHED:
        raise JournalUnfinished("a copy of another journal to here was not finished")
    check_format(what, found, newest)


def check_format(what: str, found: object, newest: int) -> None:
    """Raise JournalOfAnotherVersion unless `found`, the format of `what`, is one from 1 to `newest`."""
    if type(found) is not int or not 1 <= found <= newest:
        raise JournalOfAnotherVersion(f"{what} is {found} and this version reads up to {newest}")


@contextmanager
def formats_of(name: str) -> Iterator[None]:
    """Run the body, and put the name of the journal before what the two above say of it."""
    try:
        yield
    except (JournalOfAnotherVersion, JournalUnfinished) as error:
        raise type(error)(f"{name}: {error.what}") from error
