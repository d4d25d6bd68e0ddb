"""The option --accept-loss of the commands that open a journal."""

from collections.abc import Callable
from pathlib import Path

import click

from lacuna.cli.console import printable
from lacuna.journals import JOURNAL_NAME
from lacuna.logstore.objects import ObjectStore


def go_on_without(data: Path, open_store: Callable[[], ObjectStore] | None = None) -> None:
    """Replaces the journal of a data folder by one without what was lost, and reports the loss on standard error.

    Without `open_store` the journal is not compared with a store. Raises JournalError, ForeignStoreError,
    ObjectStoreError.
    """
    from lacuna.losses import accept_loss, describe

    path = str(data.resolve() / JOURNAL_NAME)
    store = None if open_store is None else open_store()
    try:
        loss = accept_loss(path, store)
    finally:
        if store is not None:
            store.close()
    lines = ["Nothing is missing, so nothing was changed."] if loss is None else describe(loss)
    for line in lines:
        click.echo(f"lacuna: --accept-loss: {printable(line)}", err=True)
