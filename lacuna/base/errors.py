"""Errors that users can correct, and remedies for their messages."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Final


class UserError(Exception):
    """An error that the user can correct. The message is one line and includes the remedy."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean NAME?" for the known name most similar to `name`, or "" if none is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
MORE_FILES: Final = "raise the limit on open files (ulimit -n)"
"""The remedy for a process that has reached its limit on open files."""


def advice_on(error: OSError, otherwise: str) -> str:
    """Return the remedy for `error`: `MORE_FILES` if too many files are open, and `otherwise` if not."""
    return MORE_FILES if error.errno in _OUT_OF_FILES else otherwise


class ListenError(UserError):
    """The process could not listen on an address. The message includes the reason."""


@contextmanager
def needing_extra(what: str, extra: str) -> Iterator[None]:
    """Raise UserError, naming the extra that `what` needs, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f"{what} needs the `{extra}` extra: pip install 'lacuna-log[{extra}]'"
        ) from error
