"""Finds the leader among several control planes.

The client keeps a stream to each of them. A standby reports that it is not the leader, and begins a session on the same
stream as soon as it becomes the leader. Clients therefore do not have to search for the next leader when one fails.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lacuna.controlplane.client.streams import Connect, Resolve, Sleep, StreamBroken, WatchedStream
from lacuna.controlplane.shared.reach import is_address
from lacuna.controlplane.v1.control_pb2 import SessionResponse

#: How often names are looked up, without and with a session, since control planes may get new addresses.
_LOOK_UP_SECONDS: Final = (1.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """Limits on a search for the leader. Times are in seconds."""

    first_pause: float = 0.02
    longest_pause: float = 0.5
    #: If there are several control planes, the client gives up one that is silent for this long and tries the next.
    longest_silence: float = 3.0


class _Outcome(Enum):
    """How one stream ended."""

    SERVED = "a session"
    NOT_NEEDED = "another stream has the session"
    FAILED = "no session"


class LeaderSearch:
    """Keeps a stream to each control plane at `addresses`, and calls `serve` with the stream to the leader.

    `serve(address, stream, first)` runs a session, whose first message is `first`, until it ends, and returns whether
    the control plane was usable. Only one session runs at a time. `failed` receives the reason why an address has no
    session. `random` returns numbers in [0, 1).
    """

    def __init__(
        self,
        addresses: Sequence[str],
        connect: Connect,
        resolve: Resolve,
        serve: Callable[[str, WatchedStream, SessionResponse], Awaitable[bool]],
        failed: Callable[[str], None],
        limits: SearchLimits,
        random: Callable[[], float],
        sleep: Sleep,
    ) -> None:
        self._connect = connect
        self._resolve = resolve
        self._serve = serve
        self._failed = failed
        self._limits = limits
        self._random = random
        self._sleep = sleep
        #: For each address, the control planes found by the last lookup.
        self._places: dict[str, Sequence[str]] = dict.fromkeys(addresses, ())
        #: The leader's address, as a standby reported it.
        self._named = ""
        self._lines: dict[str, asyncio.Task[None]] = {}
        self._session: WatchedStream | None = None
        self._address = ""
        self._epoch = 0
        self._turn = asyncio.Lock()
        self._wake: asyncio.Future[None]

    @property
    def is_shut_out(self) -> bool:
        """Whether a standby has named a leader that cannot be reached, and no session has begun since then."""
        return self._named != "" and not is_address(self._named)

    async def run(self) -> None:
        """Search and serve until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._wake = loop.create_future()
                await self._look_up()
                self._keep_lines()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_UP_SECONDS[self._session is not None]):
                        await self._wake
        finally:
            lines = list(self._lines.values())
            for line in lines:
                line.cancel()
            await asyncio.gather(*lines, return_exceptions=True)

    async def _look_up(self) -> None:
        for address in self._places:
            try:
                self._places[address] = await self._resolve(address)
            except OSError as error:
                self._failed(
                    f"the address of the control plane {address} cannot be resolved: {error}"
                )

    def _keep_lines(self) -> None:
        """Keep a stream to each known control plane, including the one with the session."""
        wanted = dict.fromkeys(place for places in self._places.values() for place in places)
        # During a session, the leader is known, by whatever name.
        wanted |= dict.fromkeys(filter(is_address, (self._address or self._named,)))
        for place, line in list(self._lines.items()):
            if line.done():
                line.result()
            if place not in wanted:
                self._lines.pop(place).cancel()
        for place in wanted:
            if place not in self._lines:
                self._lines[place] = asyncio.create_task(self._keep_line(place))
                # It ends only because of a bug, which should end the search as well.
                self._lines[place].add_done_callback(lambda _: self._look_again())

    def _look_again(self) -> None:
        if not self._wake.done():
            self._wake.set_result(None)

    async def _keep_line(self, place: str) -> None:
        """Open one stream after another, pausing after each one that does not result in a session."""
        failures = 0
        while True:
            outcome = await self._try(place)
            failures = 1 if outcome is _Outcome.SERVED else failures + 1
            if outcome is _Outcome.NOT_NEEDED:
                async with self._turn:
                    pass  # the other session has ended
            await self._sleep(self._pause(failures))

    async def _try(self, place: str) -> _Outcome:
        async with self._connect(place) as opened:
            stream = WatchedStream(opened)
            async with self._watched(stream):
                first = await self._first_of_leader(place, stream)
                if first is None:
                    return _Outcome.FAILED
                if not self._may_serve(place, first):
                    return _Outcome.NOT_NEEDED
                is_served = await self._is_served(place, stream, first)
                return _Outcome.SERVED if is_served else _Outcome.FAILED

    @asynccontextmanager
    async def _watched(self, stream: WatchedStream) -> AsyncIterator[None]:
        """Run the body. If there are other control planes to try, give the stream up once it falls silent."""
        if len(self._lines) == 1:
            yield
            return
        silence = self._limits.longest_silence
        watching = asyncio.create_task(stream.give_up_when_silent(silence, self._sleep))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _first_of_leader(self, place: str, stream: WatchedStream) -> SessionResponse | None:
        """Wait until this control plane is the leader. Return its first message, or None if the stream ends before
        that.
        """
        try:
            while (response := await stream.read()).HasField("not_leader"):
                self._failed(
                    f"the control plane at {place} is not the leader, and no leader was found"
                )
                named, self._named = self._named, response.not_leader.leader
                if self._named not in ("", named):
                    self._look_again()
        except StreamBroken as error:
            self._failed(f"no control plane answers at {place}: {error}")
            return None
        return response

    def _may_serve(self, place: str, first: SessionResponse) -> bool:
        """Return whether to begin a session: true if there is none yet, or only one with an earlier leader, which then
        ends. Otherwise, `place` is an earlier leader, or the current one under another name.
        """
        if self._session is None:
            return True
        if first.epoch <= self._epoch:
            return False
        self._session.give_up(f"the control plane at {place} is now the leader")
        return True

    async def _is_served(self, place: str, stream: WatchedStream, first: SessionResponse) -> bool:
        async with self._turn:
            self._session, self._address, self._epoch = stream, place, first.epoch
            self._look_again()
            try:
                return await self._serve(place, stream, first)
            finally:
                self._session, self._address, self._named = None, "", ""
                self._look_again()

    def _pause(self, failures: int) -> float:
        longest = self._limits.first_pause * float(2 ** min(failures, 30))
        return min(self._limits.longest_pause, longest) * (0.5 + self._random() / 2)
