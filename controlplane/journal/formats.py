"""Which formats a journal may have: this version's own and all earlier ones.

Whoever leads raises the number that it finds to its own, so an earlier version refuses the journal from then on.
"""

from lacuna.controlplane.journal.journal import JournalOfAnotherVersion


def check_format(what: str, found: object, newest: int) -> None:
    """Raise JournalOfAnotherVersion unless `found`, the format of `what`, is one from 1 to `newest`."""
    if type(found) is not int or not 1 <= found <= newest:
        raise JournalOfAnotherVersion(f"{what} is {found} and this version reads up to {newest}")
