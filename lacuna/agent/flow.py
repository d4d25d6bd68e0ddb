"""Flow control for one connection: counts its requests and bytes, and pauses reading.

Reading pauses while the connection holds too many requests or bytes, or while the agent as a whole holds too many
bytes. A frame that has begun to arrive is always read to its end. The table of states is in agent/connection_states.py.
"""

import asyncio
from collections.abc import Sequence

from lacuna.agent.budget import ByteBudget
from lacuna.agent.connection import RequestFrame
from lacuna.agent.connection_states import READING, Flow, Reading, Room, step
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.settings import AgentSettings

_ON, _FREE = Reading.ON, Room.FREE  # members of an Enum are slow to look up in Python 3.11


class FlowControl:
    """Counts the requests and bytes of one connection, and pauses its transport when a bound is reached."""

    __slots__ = (
        "_budget",
        "_bytes",
        "_incoming",
        "_metrics",
        "_reading",
        "_settings",
        "_transport",
        "requests",
    )

    def __init__(
        self,
        settings: AgentSettings,
        metrics: AgentMetrics,
        budget: ByteBudget,
        transport: asyncio.Transport,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._budget = budget
        self._transport = transport
        self._reading = Reading.ON
        self._bytes = 0
        self._incoming = 0
        #: Requests that have been read but not answered.
        self.requests = 0

    @property
    def has_part(self) -> bool:
        """Whether part of a frame has arrived."""
        return self._incoming > 0

    @property
    def is_stalled(self) -> bool:
        """Whether the rest of a frame is missing although reading is not paused."""
        return self._incoming > 0 and self._reading is _ON

    def received(self, frames: Sequence[RequestFrame], incoming: int) -> None:
        """Count complete frames, and the `incoming` bytes of an incomplete one (or 0)."""
        more = incoming - self._incoming
        for frame in frames:
            more += frame.size
        self.requests += len(frames)
        self._incoming = incoming
        self._bytes += more
        self._metrics.request_bytes_now += more
        self._budget.take(more)

    def released(self, requests: int, size: int) -> None:
        """Stop counting answered or dropped requests with a total of `size` bytes, and resume reading if possible."""
        self.requests -= requests
        self._bytes -= size
        self._metrics.request_bytes_now -= size
        self._budget.give_back(size)
        if self._reading is not _ON:
            self.adjust()

    def adjust(self) -> None:
        room = self._room()
        if room is not _FREE or self._reading is not _ON:
            self._heard(room)

    def stop(self) -> None:
        """Stop reading permanently, because the agent is stopping."""
        self._heard(Room.STOP)

    def end(self) -> None:
        """Stop reading permanently, because the connection is closing and its transport has already stopped reading."""
        self._heard(Room.END)

    def release_unread(self) -> None:
        """Stop counting an incomplete frame, whose remaining bytes will not arrive."""
        unread, self._incoming = self._incoming, 0
        self.released(0, unread)

    def _room(self) -> Room:
        if (
            self.requests >= self._settings.max_in_flight_requests
            or self._bytes - self._incoming >= self._settings.max_in_flight_bytes
        ):
            return Room.FULL
        if self._budget.is_full and not self._incoming:
            return Room.CROWDED
        return _FREE

    def _called(self) -> None:
        self._heard(Room.CALLED)
        self.adjust()

    def _heard(self, room: Room) -> None:
        self._reading, actions = step(READING, self._reading, room)
        for action in actions:
            self._do(action)

    def _do(self, action: Flow) -> None:
        match action:
            case Flow.PAUSE:
                self._metrics.reading_paused += 1
                self._transport.pause_reading()
            case Flow.RESUME:
                self._transport.resume_reading()
            case Flow.QUEUE:
                self._budget.when_free(self._called)
            case Flow.LEAVE_QUEUE:
                self._budget.forget(self._called)
