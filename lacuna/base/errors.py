"""The root of errors whose message tells a user what to do."""

import errno
from typing import Final


class UserError(Exception):
    """An error that the user can put right; the message is one line and says how."""


_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
MORE_FILES: Final = "raise the limit of open files (ulimit -n)"
"""What to do when the process may open no more files."""


def advice_on(error: OSError, otherwise: str) -> str:
    """Return what to do about `error`: `otherwise`, unless it is the limit of open files."""
    return MORE_FILES if error.errno in _OUT_OF_FILES else otherwise


class ListenError(UserError):
    """An address could not be listened on; the message says why."""
