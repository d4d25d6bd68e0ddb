"""The web console that `lacuna up` serves beside the cluster; what it needs is imported only if it is wanted."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module

import click

from lacuna.addresses import join_address
from lacuna.agents import ListenError
from lacuna.console.listening import listen
from lacuna.embedded import EmbeddedCluster
from lacuna.observing.endpoint import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was said about the console: HOST:PORT or "", whether that was chosen, host names, and if it may write."""

    address: str
    is_chosen: bool
    names: tuple[str, ...]
    may_write: bool

    @contextmanager
    def listening(self) -> Iterator[tuple[socket.socket | None, str]]:
        """Listens during the block, to which it gives the socket and HOST:PORT, or None and "".

        An address that nobody chose may be taken: then there is no console. Raises ListenError for one that was chosen.
        """
        listener = None
        if self.address:
            try:
                listener = listen(self.address)
            except ListenError as error:
                if self.is_chosen:
                    raise ListenError(
                        f"{error}; choose another address with --console, or --no-console"
                    ) from error
                click.echo(
                    f"no web console: {error}; --console HOST:PORT chooses another", err=True
                )
        if listener is None:
            yield None, ""
            return
        with listener:
            yield listener, join_address(*listener.getsockname()[:2])

    @asynccontextmanager
    async def served(
        self, listener: socket.socket | None, cluster: EmbeddedCluster, observed: Observed
    ) -> AsyncIterator[None]:
        """Serves the console of a cluster during the block. Connections wait in the socket until it can."""
        if listener is None:
            yield
            return
        # In a thread: clients are served already, and this takes a while.
        await asyncio.to_thread(import_module, "lacuna.console.serving")
        from lacuna.console.serving import console_served
        from lacuna.console.sources import of_embedded

        sources = await of_embedded(cluster, observed)
        async with console_served(listener, sources, names=self.names, may_write=self.may_write):
            yield


def host_names(text: str) -> tuple[str, ...]:
    """The names in a list with commas between them."""
    return tuple(name for each in text.split(",") if (name := each.strip()))
