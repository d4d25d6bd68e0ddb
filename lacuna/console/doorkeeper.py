"""A browser's connection, as uvicorn serves it, with the bounds that uvicorn lacks.

The head of a request has to come in time, and connections are bounded, from each address and in all. A new connection
beyond the bound takes the place of the one that has been without a request for longest, so half-sent heads and idle
connections keep nobody out.
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

    #: Closes the connection if the head of a request does not come; None while there is one.
    _due: asyncio.TimerHandle | None = None
    #: The number of what the client last sent: those of all connections are in order.
    _last_heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Await a request, and make room for the connection."""
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
        """Take in bytes; a head of which a part has come has to end in time."""
        self._last_heard = next(_numbers)
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for no head any more."""
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
    """Close the connection that has been without a request for longest; the newest is without one."""
    idle = (each for each in connections if not each.is_busy)
    min(idle, key=lambda each: each._last_heard)._close()


class Quiet(logging.Filter):
    """Lets through what uvicorn says of a request once a minute: every client can make it say it again."""

    def __init__(self) -> None:
        super().__init__()
        self._complaints = Complaints()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        return self._complaints.is_new("", record.getMessage(), record.created)
