"""The packages of the extra `security`, which only some settings need."""

from collections.abc import Iterator
from contextlib import contextmanager

from lacuna.base.errors import UserError


@contextmanager
def needing_extra(what: str) -> Iterator[None]:
    """Raise UserError if an import in the block fails. `what` is the setting that needs it, for the message."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f"{what} needs the extra `security`: pip install 'lacuna-log[security]'"
        ) from error
