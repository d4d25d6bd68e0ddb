"""The errors of a file system, as a directory store reports them."""

import errno

from lacuna.base.errors import advice_on
from lacuna.logstore.objects.store import (
    ObjectStoreError,
    StoreMisconfiguredError,
    StoreUnavailableError,
)

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What the file system says of an object that does not exist, whatever its key."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def store_error(root: str, error: OSError) -> ObjectStoreError:
    """Return the error of the store at `root`, which says what to do about `error`."""
    if error.errno == errno.ENOTDIR:
        return StoreMisconfiguredError(
            f"{root} holds a file where a directory must be ({error}): move it away"
        )
    if error.errno in _NO_SPACE:
        return StoreMisconfiguredError(f"no space left below {root}: free some ({error})")
    if error.errno in _REFUSED:
        return StoreMisconfiguredError(
            f"{root} cannot be used: give this user permission to write there ({error})"
        )
    if error.errno in _NO_LOCKS:
        return StoreMisconfiguredError(
            f"the file system of {root} cannot lock files ({error}): use a directory on one that can, "
            "such as ext4 or xfs"
        )
    advice = advice_on(error, "")
    return StoreUnavailableError(f"directory {root} failed: {error}{advice and f'; {advice}'}")
