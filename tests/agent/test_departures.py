"""Clients that disconnect while the server still has requests from them."""

import asyncio

import pytest

from lacuna.agent.server import AgentServer
from tests.agent.doors import (
    PIPELINED,
    SEQUENTIAL,
    WAITING,
    Doors,
    event_loop_policy,  # noqa: F401 - a fixture
    frame,
    setup,
)
from tests.agent.harness import RawClient, make_server, serving
from tests.doubles.clock import until

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


async def test_a_lost_client_ends_its_wait_but_not_its_produce() -> None:
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        first, second = await RawClient.connect(server.port), await RawClient.connect(server.port)
        first.send(frame(WAITING, "fetch"))
        second.send(frame(PIPELINED, "produce"))
        await doors.until(started=2)
        first.writer.transport.abort()
        second.writer.transport.abort()
        await doors.until(ended=1)
        assert doors.ended == ["fetch"]
        doors.door("produce").set()
        await doors.until(ended=2)
        await until(lambda: not server.budget.taken)


async def test_what_a_client_said_before_it_left_is_done() -> None:
    """As in Kafka: the LeaveGroup of a closing consumer may follow a fetch that waits."""
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        client = await RawClient.connect(server.port)
        client.send(frame(WAITING, "fetch") + frame(SEQUENTIAL, "leave") + frame(WAITING, "join"))
        client.send(frame(SEQUENTIAL, "now last"))
        await doors.until(started=1)
        await client.close()
        await doors.until(started=2)
        doors.door("leave").set()
        await doors.until(ended=4)
        assert doors.ended == ["fetch", "leave", "join", "now last"]
        await until(lambda: not server.budget.taken)


async def deserted(server: AgentServer, doors: Doors, *frames: bytes) -> None:
    """A client that sent requests and left while the first of them was being served."""
    client = await RawClient.connect(server.port)
    started = len(doors.started)
    client.send(b"".join(frames))
    await doors.until(started=started + 1)
    await client.close()
    await asyncio.sleep(0.05)  # no event shows that the server has seen it


async def test_who_asks_and_leaves_counts_as_a_connection_until_it_is_served() -> None:
    doors, context = setup(max_connections=2)
    async with serving(context, doors.registry()) as server:
        for _ in range(2):
            await deserted(server, doors, frame(SEQUENTIAL, "commit"))
        third = await RawClient.connect(server.port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            async with asyncio.timeout(60):
                await third.frame()
        doors.door("commit").set()
        await doors.until(ended=2)
        await until(lambda: not context.metrics.connections_now)
        assert (doors.started, server.budget.taken) == (["commit"] * 2, 0)


async def test_stopping_waits_for_what_a_client_said_before_it_left() -> None:
    doors, context = setup()
    server = make_server(context, doors.registry())
    await server.start()
    await deserted(server, doors, frame(SEQUENTIAL, "commit"), frame(SEQUENTIAL, "now leave"))
    stopping = asyncio.create_task(server.stop())
    await asyncio.wait((stopping,), timeout=0.05)
    assert not stopping.done()
    doors.door("commit").set()
    async with asyncio.timeout(60):
        await stopping
    assert doors.ended == ["commit", "now leave"]


async def test_dropped_clients_are_not_served_any_further_even_if_they_have_left() -> None:
    """An agent that slept past its lease drops them, because others have answered in the meantime."""
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        await deserted(server, doors, frame(SEQUENTIAL, "commit"), frame(SEQUENTIAL, "now leave"))
        server.drop_clients()
        await doors.until(ended=1)
        doors.door("commit").set()
        await until(lambda: not server.budget.taken)
        assert (doors.started, context.metrics.connections_now) == (["commit"], 0)


async def test_nothing_is_served_behind_the_bad_bytes_of_a_client_that_left() -> None:
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        bad, behind = frame(SEQUENTIAL, "bad"), frame(SEQUENTIAL, "now leave")
        await deserted(server, doors, frame(SEQUENTIAL, "commit"), bad, behind)
        doors.door("commit").set()
        await until(lambda: not (context.metrics.connections_now or server.budget.taken))
        assert doors.started == ["commit"]
