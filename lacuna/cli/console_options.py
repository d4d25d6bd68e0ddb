"""The web console that `lacuna up` serves. Its libraries are imported only if it is enabled."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.cli.places import ConsoleVisitors
from lacuna.console.listening import listen
from lacuna.controlplane.client import ControlPlace
from lacuna.observing.endpoint import Observed, Shown
from lacuna.observing.siblings import Siblings
from lacuna.operating.embedded import EmbeddedCluster
from lacuna.operating.kafka import Agents

if TYPE_CHECKING:
    from lacuna.console.decoding import Decoding

log = logging.getLogger("lacuna")

_NEEDED: Final = ("jinja2", "starlette", "uvicorn")
_INSTALL: Final = "pip install 'lacuna-log[console]'"


def check_installed() -> None:
    """Raises UserError if the console's libraries are not installed."""
    if not all(map(find_spec, _NEEDED)):
        raise UserError(f"the web console is not installed: {_INSTALL}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The address HOST:PORT, or "" for no console; whether the user chose the address; and the visitors' rights."""

    address: str
    is_chosen: bool
    visitors: ConsoleVisitors = field(default_factory=ConsoleVisitors)

    @contextmanager
    def listening(self) -> Iterator[tuple[socket.socket | None, str]]:
        """Listens during the block. Yields the socket and its HOST:PORT, or None and "" if there is no console.

        If the address is in use or libraries are missing, there is no console; if the user chose the address, raises
        UserError instead.
        """
        listener = None
        if self.address:
            try:
                check_installed()
                listener = listen(self.address, "--console, or --no-console")
            except UserError as error:
                if self.is_chosen:
                    raise
                click.echo(f"no web console: {error}", err=True)
        if listener is None:
            yield None, ""
            return
        with listener:
            yield listener, join_address(*listener.getsockname()[:2])

    @contextmanager
    def served_in_thread(
        self,
        listener: socket.socket | None,
        place: ControlPlace,
        agents: Agents,
        siblings: Siblings,
    ) -> Iterator[None]:
        """During the block, serves the console in a thread with its own event loop, for a cluster in other processes.

        If the console fails, the failure is logged and the cluster continues.
        """
        if listener is None:
            yield
            return
        loop = asyncio.new_event_loop()
        ending = asyncio.Event()

        async def serve(listener: socket.socket) -> None:
            from lacuna.console.serving import console_of_others

            shown = Shown(Observed(""), siblings)
            async with console_of_others(
                listener,
                place,
                agents,
                names=self.visitors.names(),
                may_write=self.visitors.writes,
                decoding=decoding_of(self.visitors),
                shown=shown,
            ):
                await ending.wait()

        def main() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    runner.run(serve(listener))
            except Exception:
                log.exception("the web console has failed, and the cluster continues without it")

        thread = threading.Thread(target=main, name="console", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with suppress(RuntimeError):  # it has failed, and its loop is closed
                loop.call_soon_threadsafe(ending.set)
            thread.join()

    @asynccontextmanager
    async def served(
        self, listener: socket.socket | None, cluster: EmbeddedCluster, observed: Observed
    ) -> AsyncIterator[None]:
        """Serves a cluster's console during the block. Connections wait in the socket's queue until the console is
        ready.
        """
        if listener is None:
            yield
            return
        # The import takes a while and clients are already being served, so it runs in a thread.
        await asyncio.to_thread(import_module, "lacuna.console.serving")
        from lacuna.console.serving import console_served
        from lacuna.console.sources import of_embedded

        sources = await of_embedded(cluster, Shown(observed))
        async with console_served(
            listener,
            sources,
            names=self.visitors.names(),
            may_write=self.visitors.writes,
            decoding=decoding_of(self.visitors),
        ):
            yield


def decoding_of(visitors: ConsoleVisitors) -> "Decoding | None":
    """Return the decoder for the configured schema registry, or None without one. Raises UserError."""
    if not visitors.registry:
        return None
    from lacuna.console.decoding import Decoding

    login = visitors.registry_login
    secret = read_secret(login, "console.registry.login") if login else None
    return Decoding(visitors.registry, time.monotonic, secret)
