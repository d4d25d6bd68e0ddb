"""A browser's connection, served by uvicorn, with bounds that uvicorn does not have.

The head of a request must arrive in time. Connections are bounded, for each address and in all. A new connection beyond
the bound replaces the one that has been without a request for longest, so incomplete heads and idle connections do not
exclude others.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from lacuna.console import limits
from lacuna.controlplane.shared.complaints import Complaints

_numbers: Final = itertools.count(1)


class Doorkeeper(H11Protocol):
    """One connection."""

    #: Closes the connection if the head of a request does not arrive; None during a request.
    _due: asyncio.TimerHandle | None = None
    #: The number of the client's last data, counted over all connections.
    _last_heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, and make room for the connection."""
        super().connection_made(transport)
        self._last_heard = next(_numbers)
        self._await_head()
        others = [each for each in self.connections if isinstance(each, Doorkeeper)]
        of_address = [each for each in others if each._address == self._address]
        if len(of_address) > limits.CONNECTIONS_OF_ADDRESS:
            _close_one(of_address)
        elif len(others) > limits.CONNECTIONS:
            _close_one(others)

    def data_received(self, data: bytes) -> None:
        """Take in bytes. The rest of an incomplete head must arrive in time."""
        self._last_heard = next(_numbers)
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for a head."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _await_head(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(limits.HEAD_SECONDS, self._close)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _close(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()


def _close_one(connections: Iterable[Doorkeeper]) -> None:
    """Close the connection that has been without a request for longest. The newest has none yet."""
    idle = (each for each in connections if not each.is_busy)
    min(idle, key=lambda each: each._last_heard)._close()


class Quiet(logging.Filter):
    """Passes on uvicorn's messages about requests once a minute, since any client can cause more."""

    def __init__(self) -> None:
        super().__init__()
        self._complaints = Complaints()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        return self._complaints.is_new("", record.getMessage(), record.created)
