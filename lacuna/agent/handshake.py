"""The TLS handshake of an accepted connection, before it becomes a ClientConnection.

    accepted -> counted -> handshake, for ten seconds at most -> ClientConnection

The connection counts towards the limit from the start, which also bounds clients that connect and send nothing.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from lacuna.agent.client_connection import ClientConnection
from lacuna.agent.context import AgentContext
from lacuna.agent.eager import start
from lacuna.agent.security.access import UnknownSubject
from lacuna.agent.security.listeners import Listener
from lacuna.controlplane.shared.complaints import Complaints

log = logging.getLogger("lacuna.agent")

_HANDSHAKE_SECONDS: Final = 10.0
_SHUTDOWN_SECONDS: Final = 2.0
_MOST_EARLY_BYTES: Final = 1 << 20


class Entrance(Protocol):
    """The part of AgentServer that a handshake needs."""

    context: AgentContext
    complaints: Complaints

    def begin_handshake(self, handshake: "Handshake") -> bool: ...

    def end_handshake(self, handshake: "Handshake") -> None: ...


class Handshake(asyncio.Protocol):
    """The asyncio protocol of a connection to a TLS listener until its handshake is done.

    `connect` creates the client's connection, which then takes over.
    """

    def __init__(
        self, server: Entrance, listener: Listener, connect: Callable[[], ClientConnection]
    ) -> None:
        self._server = server
        self._listener = listener
        self._connect = connect
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        #: The client's host, and its port.
        self.address = ""
        self._port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake, unless there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.address, self._port = str(peer[0]), int(peer[1])
        if not self._server.begin_handshake(self):
            self._transport.abort()
            return
        # The protocol is set immediately; otherwise, data from the client would arrive here and be lost.
        self._task = start(self._shake_hands(), "TLS handshake")

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._task is not None:
            self._task.cancel()

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        early = _Early(self._transport)
        try:
            tls = self._server.context.access.tls
            assert tls is not None, "a listener with TLS has a certificate"
            secured = await loop.start_tls(
                self._transport,
                early,
                tls.context(loop.time(), with_sasl=self._listener.protocol.has_sasl),
                server_side=True,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
            assert secured is not None
        except (OSError, ssl.SSLError) as error:
            self._failed(error)
        except BaseException:
            self._transport.abort()
            raise
        else:
            self._hand_over(secured, early)
        finally:
            self._server.end_handshake(self)

    def _hand_over(self, transport: asyncio.Transport, early: "_Early") -> None:
        """Create the client's connection, and pass it the bytes that arrived with the end of the handshake."""
        # This comes before the connection is admitted, so that it is not counted twice.
        self._server.end_handshake(self)
        if early.is_lost:
            return
        connection = self._connect()
        try:
            connection.connection_made(transport)
            transport.set_protocol(connection)
            if early.data:
                connection.received(bytes(early.data))
        except UnknownSubject as error:
            self._failed(error)
            transport.abort()
        except Exception:
            # No other code would close it.
            log.exception(
                "%s:%d: connection closed by an unexpected error; please report it",
                self.address,
                self._port,
            )
            transport.abort()

    def _failed(self, error: Exception) -> None:
        self._server.context.metrics.authentications_failed += 1
        self._transport.abort()
        why = str(error) or type(error).__name__
        if self._server.complaints.is_new(self.address, why, asyncio.get_running_loop().time()):
            name = self._listener.name
            log.warning(
                "%s:%d: TLS handshake with %s failed: %s", self.address, self._port, name, why
            )


class _Early(asyncio.Protocol):
    """Keeps a bounded amount of data that arrives after the handshake and before the client's connection exists."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.data = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Keep the data, or close the connection if there is too much."""
        self.data += data
        if len(self.data) > _MOST_EARLY_BYTES:
            self.data.clear()
            self.is_lost = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.is_lost = True
