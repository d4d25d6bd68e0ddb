"""The option --accept-loss of the commands that open a journal."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from lacuna.cli.console import printable
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.logstore.objects import ObjectStore
from lacuna.operating.journals import SharedJournalOptions


def go_on_without(data: Path, open_store: Callable[[], ObjectStore] | None = None) -> None:
    """Replaces the journal in a data folder with its intact part, and reports the loss on standard error.

    With `open_store`, the journal is also compared with the store. Raises JournalError, ForeignStoreError,
    ObjectStoreError.
    """
    from lacuna.operating.losses import accept_loss, describe

    path = str(data.resolve() / JOURNAL_NAME)
    store = None if open_store is None else open_store()
    try:
        loss = accept_loss(path, store)
    finally:
        if store is not None:
            store.close()
    _print_lines(
        ["Nothing is missing, so nothing was changed."] if loss is None else describe(loss)
    )


async def go_on_with_shared(
    journal: SharedJournalOptions, open_store: Callable[[], ObjectStore] | None = None
) -> None:
    """Restarts a shared journal from its intact part, and reports the loss, as `go_on_without` does."""
    from lacuna.operating.losses import accept_shared_loss, describe

    store = None if open_store is None else await asyncio.to_thread(open_store)
    try:
        with journal.wreck() as held:
            async with held as wreck:
                loss = await accept_shared_loss(wreck, store)
    finally:
        if store is not None:
            store.close()
    _print_lines(describe(loss))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"lacuna: --accept-loss: {printable(line)}", err=True)
