"""Tests how a client finds the leader among several control planes (adr/0026)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from lacuna.controlplane.client.search import LeaderSearch, SearchLimits
from lacuna.controlplane.client.streams import StreamBroken, WatchedStream
from lacuna.controlplane.v1.control_pb2 import NotLeader, SessionRequest, SessionResponse
from tests.simulation.loop import on_virtual_time


class Door:
    """A stream to a control plane that sends scripted responses."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[SessionResponse | BaseException] = asyncio.Queue()
        self.is_closed = False

    def stands_by(self, leader: str = "") -> None:
        self._said.put_nowait(SessionResponse(not_leader=NotLeader(leader=leader)))

    def leads(self, epoch: int) -> None:
        self._said.put_nowait(SessionResponse(epoch=epoch))

    def dies(self) -> None:
        self._said.put_nowait(StreamBroken("gone"))

    async def read(self) -> SessionResponse:
        said = await self._said.get()
        if isinstance(said, BaseException):
            raise said
        return said

    async def write(self, request: SessionRequest) -> None:
        raise AssertionError("nothing is sent before a session begins")

    def cancel(self) -> None:
        self._said.put_nowait(asyncio.CancelledError())


class Street:
    """The streams that a search opened, the sessions that it provided, and its reasons for having none."""

    def __init__(self, *addresses: str, longest_silence: float = 60.0) -> None:
        self.doors: dict[str, Door] = {}
        self.sessions: list[str] = []
        self.failures: list[str] = []
        self.places: dict[str, Sequence[str]] = {address: (address,) for address in addresses}
        self.search = LeaderSearch(
            addresses,
            self._connect,
            self._resolve,
            self._serve,
            self.failures.append,
            SearchLimits(longest_silence=longest_silence, first_pause=0.001),
            lambda: 0.5,
            asyncio.sleep,
        )

    @asynccontextmanager
    async def _connect(self, address: str) -> AsyncIterator[Door]:
        door = self.doors[address] = Door()
        try:
            yield door
        finally:
            door.is_closed = True
            if self.doors[address] is door:
                del self.doors[address]

    async def _resolve(self, address: str) -> Sequence[str]:
        if not self.places[address]:
            raise OSError("no such name")
        return self.places[address]

    async def _serve(self, address: str, stream: WatchedStream, first: SessionResponse) -> bool:
        self.sessions.append(f"{address} {first.epoch}")
        try:
            while True:
                await stream.read()
        except StreamBroken as error:
            self.sessions.append(f"{address}: {error}")
            return True

    async def door(self, address: str) -> Door:
        while address not in self.doors:
            await asyncio.sleep(0.001)
        return self.doors[address]

    async def until(self, *sessions: str) -> None:
        while self.sessions != list(sessions):
            await asyncio.sleep(0.001)


@pytest.fixture
async def street() -> AsyncIterator[Street]:
    street = Street("a", "b")
    async with running(street):
        yield street


@asynccontextmanager
async def running(street: Street) -> AsyncIterator[None]:
    task = asyncio.create_task(street.search.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_standby_that_begins_to_lead_serves_on_the_stream_that_is_there(
    street: Street,
) -> None:
    one, other = await street.door("a"), await street.door("b")
    other.stands_by("a")
    one.leads(1)
    await street.until("a 1")
    one.dies()
    other.leads(2)
    await street.until("a 1", "a: gone", "b 2")
    assert street.doors["b"] is other


async def test_a_later_leader_ends_the_session_with_an_earlier_one(street: Street) -> None:
    one, other = await street.door("a"), await street.door("b")
    one.leads(1)
    await street.until("a 1")
    other.leads(2)
    await street.until("a 1", "a: the control plane at b is now the leader", "b 2")
    stale = await street.door("a")
    stale.leads(1)
    while not stale.is_closed:
        await asyncio.sleep(0.001)
    await street.until("a 1", "a: the control plane at b is now the leader", "b 2")


async def test_a_leader_that_only_a_standby_knows_is_asked(street: Street) -> None:
    (await street.door("a")).stands_by("c")
    (await street.door("c")).leads(1)
    await street.until("c 1")


async def test_a_leader_has_one_session_whatever_it_is_called(street: Street) -> None:
    """Standbys may know the leader by names other than ours."""
    standby, leader = await street.door("a"), await street.door("b")
    standby.stands_by("c")
    named = await street.door("c")
    leader.leads(1)
    await street.until("b 1")
    while not named.is_closed:
        await asyncio.sleep(0.001)
    assert "c" not in street.doors


@on_virtual_time
async def test_where_a_name_points_to_is_looked_up_again() -> None:
    street = Street("name")
    street.places["name"] = ()
    async with running(street):
        while not street.failures:
            await asyncio.sleep(0.001)
        assert (
            "the address of the control plane name cannot be resolved: no such name"
            in street.failures
        )
        street.places["name"] = ("old",)
        (await street.door("old")).dies()
        street.places["name"] = ("new",)
        (await street.door("new")).leads(1)
        await street.until("new 1")
        assert set(street.doors) == {"new"}


@on_virtual_time
async def test_one_that_is_silent_is_left_if_there_are_others() -> None:
    street = Street("a", "b", longest_silence=0.05)
    async with running(street):
        silent = await street.door("a")
        silent.leads(1)
        await street.until("a 1", "a: it was silent for 0.05 s")


async def test_a_mistake_of_ours_ends_the_search(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_: object) -> bool:
        raise ValueError("a mistake")

    street = Street("a")
    monkeypatch.setattr(street.search, "_serve", mistaken)
    searching = asyncio.create_task(street.search.run())
    (await street.door("a")).leads(1)
    with pytest.raises(ValueError, match="a mistake"):
        await searching
