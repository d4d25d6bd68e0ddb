"""A consumer's first fetch from an agent that does not yet know of another one's acknowledgements (S7)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lacuna.agent.api import Call
from lacuna.agent.apis import k01_fetch as api
from lacuna.agent.client import Peer
from lacuna.agent.fetch.answers import size_of
from lacuna.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tests.agent.fetch.log import Log, fetch_request, make_batch, open_log
from tests.agent.harness import anybody
from tests.doubles.clock import iterations, until

WAITS = {"max_wait_ms": 20}


class Consumers:
    """Consumers of an agent that receives changes only when it requests them."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.context = log.context()

    @property
    def asked(self) -> int:
        """The number of times that the agent asked."""
        return self.context.metrics.views_confirmed

    async def fetch(self, peer: Peer, **options: int) -> FetchResponse:
        """Fetch the only partition from its beginning."""
        return await self.ask(peer, 12, **options)

    async def ask(self, peer: Peer, version: int, **options: int) -> FetchResponse:
        """Like `fetch`, at the given version."""
        return await api.handle(Call(self.context, peer, version), self.request(**options))

    def request(self, **options: int) -> FetchRequest:
        return fetch_request({(self.log.topic, 0): 0}, forgotten=(), **options)

    @asynccontextmanager
    async def unheard(self, value: bytes) -> AsyncIterator[None]:
        """Acknowledge a record elsewhere, which this agent learns of when it asks, or at the end of the block."""
        control = self.log.control
        deliver, unread = control.deliver, []

        def receive(*message: object) -> None:
            unread.append(message)
            if self.context.metrics.views_confirmed > before:
                read_all()

        def read_all() -> None:
            while unread:
                deliver(*unread.pop(0))  # type: ignore[arg-type]

        before = self.context.metrics.views_confirmed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(control, "deliver", receive)
            produce = asyncio.ensure_future(self.log.produce(make_batch(value)))
            await iterations()
            await until(lambda: unread, 0.001)
            yield
        read_all()
        await produce


@asynccontextmanager
async def consumers() -> AsyncIterator[Consumers]:
    async with open_log() as log:
        await log.create_topic("t")
        await log.fetch(0, min_bytes=1, **WAITS)  # the partition's view now exists
        yield Consumers(log)


def peer() -> Peer:
    return anybody()


def only(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_s7_the_first_fetch_of_a_connection_sees_what_another_agent_acknowledged(
    session_epoch: int,
) -> None:
    async with consumers() as some, some.unheard(b"a"):
        answer = only(await some.fetch(peer(), session_epoch=session_epoch, **WAITS))
        assert (size_of(answer) > 0, answer.high_watermark) == (True, 1)


async def test_s7_so_does_the_first_of_a_session_on_an_old_connection() -> None:
    async with consumers() as some:
        connection = peer()
        await some.fetch(connection, **WAITS)
        async with some.unheard(b"a"):
            assert only(await some.fetch(connection, session_epoch=0, **WAITS)).records


async def test_s7_and_that_of_an_old_client() -> None:
    async with consumers() as some, some.unheard(b"a"):
        assert only(await some.ask(peer(), 3, isolation=0, **WAITS)).records


@pytest.mark.parametrize("limits", [{"max_wait_ms": 0}, {"max_wait_ms": 60_000, "min_bytes": 0}])
async def test_s7_who_does_not_wait_is_not_told_that_there_is_nothing_without_asking(
    limits: dict[str, int],
) -> None:
    """A fetch that waits need not ask, because later changes wake it."""
    async with consumers() as some:
        connection = peer()
        await some.fetch(connection, **WAITS)
        async with some.unheard(b"a"):
            assert only(await some.fetch(connection, **limits)).records
        asked = some.asked
        assert only(await some.fetch(connection, **limits)).records
        assert some.asked == asked, "there was something"


async def test_nobody_asks_for_what_follows() -> None:
    """Neither later fetches on a connection nor those in its session do."""
    async with consumers() as some:
        connection = peer()
        session_id = (await some.fetch(connection, session_epoch=0, **WAITS)).session_id
        asked = some.asked
        for epoch in range(1, 5):
            await some.fetch(connection, session_id=session_id, session_epoch=epoch, **WAITS)
            await some.fetch(connection, **WAITS)
        assert some.asked == asked
