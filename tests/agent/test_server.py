"""Connections: order, pipelining, bounds, invalid bytes, idleness, stopping."""

import asyncio
import logging
import re
import resource
import struct

import pytest

from lacuna.agent.api import Call
from lacuna.agent.context import AgentContext
from lacuna.agent.descriptors import room_for_connections
from lacuna.agent.registry import Registry
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.wire.layout import Buffer
from tests.agent.doors import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    PIPELINED,
    SEQUENTIAL,
    answers,
    event_loop_policy,  # noqa: F401 - a fixture
    frame,
    made_up_api,
    setup,
)
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    client_of,
    encode_request,
    make_context,
    make_server,
    serving,
)
from tests.doubles.clock import until

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


async def test_pipelined_requests_overlap_and_are_answered_in_order() -> None:
    doors, context = setup()
    async with client_of(context, doors.registry()) as client:
        client.send(b"".join(frame(PIPELINED, name, i) for i, name in enumerate("abc")))
        await doors.until(started=3)
        assert doors.started == ["a", "b", "c"]
        doors.door("c").set()
        doors.door("b").set()
        await doors.until(ended=2)
        doors.door("a").set()
        assert await answers(client, 3) == [(0, "a!"), (1, "b!"), (2, "c!")]


async def test_other_requests_wait_for_all_before_them() -> None:
    """A pipelined request also waits for a sequential one before it."""
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        client = await RawClient.connect(server.port)
        client.send(frame(PIPELINED, "a", 1) + frame(SEQUENTIAL, "b", 2) + frame(PIPELINED, "c", 3))
        await doors.until(started=1)
        other = await RawClient.connect(server.port)
        other.send(frame(SEQUENTIAL, "now", 9))
        assert await answers(other, 1) == [(9, "now!")]
        assert doors.started == ["a", "now"]
        doors.door("a").set()
        await doors.until(started=3)
        assert doors.started == ["a", "now", "b"]
        doors.door("b").set()
        doors.door("c").set()
        assert await answers(client, 3) == [(1, "a!"), (2, "b!"), (3, "c!")]


async def test_a_request_may_want_no_answer() -> None:
    """Produce with acks=0 wants none."""
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        client = await RawClient.connect(server.port)
        client.send(frame(PIPELINED, "now silent", 1) + frame(SEQUENTIAL, "now", 2))
        assert await answers(client, 1) == [(2, "now!")]


#: A limit short enough to be reached soon. The server checks its connections four times in the shortest.
SWEEPING_MS = 20
BAD = {
    "garbage": b"GET / HTTP/1.1\r\n\r\n",
    "exceeds the limit": struct.pack(">i", 100 * (1 << 20) + 1),
    "unknown api": encode_request(999 - 987 + 48, 0, b""),
    "unknown version": encode_request(SEQUENTIAL, 2, b""),
    "bad body": frame(SEQUENTIAL, "bad"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_bytes_close_with_one_line_that_names_the_peer(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        client = await RawClient.connect(server.port)
        own = client.writer.get_extra_info("sockname")
        with caplog.at_level(logging.DEBUG, logger="lacuna"):
            client.send(BAD[name] + b"more and more")
            assert await client.is_closed()
        (record,) = [each for each in caplog.records if each.name.startswith("lacuna")]
        assert record.getMessage().startswith(f"127.0.0.1:{own[1]}: connection closed: ")
        assert record.exc_info is None
        assert context.metrics.connections_closed_malformed == 1
        other = await RawClient.connect(server.port)
        other.send(frame(SEQUENTIAL, "now", 5))
        assert await answers(other, 1) == [(5, "now!")]


async def test_a_client_that_tries_again_and_again_is_complained_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    doors, context = setup()
    async with serving(context, doors.registry()) as server:
        for _ in range(5):
            client = await RawClient.connect(server.port)
            client.send(bytes.fromhex("16030100c8010000c40303"))
            assert await client.is_closed()
    (line,) = caplog.messages
    assert "this is a TLS client" in line
    assert context.metrics.connections_closed_malformed == 5


async def test_our_own_mistake_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    doors, context = setup()
    doors.fail = {
        "now bug": KeyError("x"),
        "now away": ControlPlaneUnavailable("x"),
        "now refused": CommandRefused(42, "x"),
    }
    async with client_of(context, doors.registry()) as client:
        client.send(b"".join(frame(SEQUENTIAL, name) for name in doors.fail))
        assert await answers(client, 3) == [(0, "error -1!"), (0, "error 15!"), (0, "error 42!")]
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= 40] == [
        True
    ]
    assert (context.metrics.requests_failed, context.metrics.requests_unavailable) == (2, 1)


async def test_without_an_answer_for_errors_the_connection_closes() -> None:
    doors, context = setup()
    doors.fail = {"now bug": KeyError("x")}
    async with client_of(context, doors.registry()) as client:
        client.send(encode_request(13, 0, b"now bug"))
        assert await client.is_closed()


async def test_reading_pauses_at_the_bound_of_requests() -> None:
    """Further bytes stay in the socket, and nothing is lost once answers leave."""
    doors, context = setup(max_in_flight_requests=4)
    async with client_of(context, doors.registry()) as client:
        for i in range(30):
            client.send(frame(PIPELINED, str(i), i))
            await client.writer.drain()
            await asyncio.sleep(0)
        await doors.until(started=4)
        assert context.metrics.reading_paused >= 1
        assert len(doors.started) < 30
        for i in range(30):
            doors.door(str(i)).set()
        assert [found for found, _ in await answers(client, 30)] == list(range(30))


async def test_bytes_of_the_agent_are_bounded_and_given_back() -> None:
    doors, context = setup(max_agent_bytes=4096)
    async with serving(context, doors.registry()) as server:
        clients = [await RawClient.connect(server.port) for _ in range(4)]
        for client in clients:
            client.send(frame(SEQUENTIAL, "wait" + "x" * 3000, 7))
        await doors.until(started=2)
        third = await RawClient.connect(server.port)
        third.send(frame(SEQUENTIAL, "now", 8) * 2)
        name = doors.started[0]
        doors.door(name).set()
        for client in clients:
            assert (await answers(client, 1))[0][0] == 7
        assert [found for found, _ in await answers(third, 2)] == [8, 8]
        assert server.budget.taken == 0
    assert context.metrics.request_bytes_now == 0


@pytest.mark.slow
async def test_a_slow_reader_holds_only_itself() -> None:
    """One answer exceeds the write buffer, so its next request waits."""
    started = 0

    async def handle(call: Call, request: bytes) -> bytes:
        nonlocal started
        started += 1
        return bytes(4 << 20)

    api = made_up_api(SEQUENTIAL, handle)
    settings = AgentSettings(write_buffer_bytes=1024)
    context = make_context(ScriptedControl(), settings)
    async with serving(context, Registry([api])) as server:
        slow, quick = await RawClient.connect(server.port), await RawClient.connect(server.port)
        slow.send(frame(SEQUENTIAL, "") * 20)
        quick.send(frame(SEQUENTIAL, ""))
        assert len(await quick.frame()) == 4 + (4 << 20)
        assert started <= 6
        for _ in range(20):
            await slow.frame()
        assert started == 21


async def test_too_many_connections_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    doors, context = setup(max_connections=2)
    async with serving(context, doors.registry()) as server:
        first, second = await RawClient.connect(server.port), await RawClient.connect(server.port)
        for client in (first, second):
            client.send(frame(SEQUENTIAL, "now"))
            await answers(client, 1)
        for _ in range(5):
            third = await RawClient.connect(server.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await third.frame()
        await first.close()
        await until(lambda: context.metrics.connections_now <= 1, 0.01)
        fourth = await RawClient.connect(server.port)
        fourth.send(frame(SEQUENTIAL, "now"))
        await answers(fourth, 1)
        assert (context.metrics.connections_refused, context.metrics.connections_accepted) == (5, 3)
    (told,) = [each.getMessage() for each in caplog.records if each.name == "lacuna.agent"]
    assert told == "new connections are refused: 2 are open, the limit set by max.connections"


async def test_the_limit_of_open_files_bounds_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal and the store open files too, so clients never take the last descriptors."""
    monkeypatch.setattr("lacuna.agent.server.room_for_connections", lambda: 1)
    doors, context = setup()
    async with (
        serving(context, doors.registry()) as server,
        RawClient.connected(server.port) as first,
    ):
        first.send(frame(SEQUENTIAL, "now"))
        await answers(first, 1)
        second = await RawClient.connect(server.port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await second.frame()
    assert "raise the limit on open files (ulimit -n)" in caplog.text


def test_room_is_kept_for_what_is_not_a_connection() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft // 2 <= room_for_connections() < soft


def shorten(context: AgentContext, **settings: int) -> None:
    """Change the settings of an agent that is already serving, so that an earlier delay has no effect."""
    for name, value in settings.items():
        object.__setattr__(context.settings, name, value)


async def test_idle_connections_are_closed_and_busy_ones_not() -> None:
    doors, context = setup(max_stall_ms=SWEEPING_MS)
    async with serving(context, doors.registry()) as server:
        idle, busy = await RawClient.connect(server.port), await RawClient.connect(server.port)
        busy.send(frame(SEQUENTIAL, "long", 3))
        await doors.until(started=1)
        shorten(context, max_idle_ms=SWEEPING_MS)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            async with asyncio.timeout(60):
                await idle.frame()
        assert context.metrics.connections_closed_idle == 1
        shorten(context, max_idle_ms=600_000)
        doors.door("long").set()
        assert await answers(busy, 1) == [(3, "long!")]


@pytest.mark.parametrize("silence", [[ADD_OFFSETS], [ADD_OFFSETS, ADD_PARTITIONS]])
async def test_who_adds_offsets_to_a_transaction_and_falls_silent_is_disconnected(
    silence: list[int],
) -> None:
    """librdkafka may wait for a coordinator that it has forgotten, until a connection breaks (adr/0018)."""
    doors, context = setup(max_stall_ms=SWEEPING_MS, max_offsets_wait_ms=600_000)
    async with client_of(context, doors.registry()) as client:
        client.send(b"".join(frame(key, "now") for key in silence))
        await answers(client, len(silence))
        shorten(context, max_offsets_wait_ms=SWEEPING_MS)
        async with asyncio.timeout(60):
            assert await client.is_closed()
        assert context.metrics.connections_closed_idle == 1


async def test_who_goes_on_after_adding_offsets_is_not_disconnected() -> None:
    doors, context = setup(max_stall_ms=SWEEPING_MS, max_offsets_wait_ms=600_000)
    async with serving(context, doors.registry()) as server:
        clients = [await RawClient.connect(server.port) for _ in range(4)]
        ended, without_offsets, waiting, silent = clients
        ended.send(frame(ADD_OFFSETS, "now") + frame(SEQUENTIAL, "now"))
        without_offsets.send(frame(ADD_PARTITIONS, "now"))
        waiting.send(frame(ADD_OFFSETS, "long", 3))
        await answers(ended, 2)
        await answers(without_offsets, 1)
        silent.send(frame(ADD_OFFSETS, "now"))  # the last to speak is the last to be closed
        async with asyncio.timeout(60):
            await silent.frame()
            await doors.until(started=5)
            shorten(context, max_offsets_wait_ms=SWEEPING_MS)
            assert await silent.is_closed()
        for client in (ended, without_offsets):
            client.send(frame(SEQUENTIAL, "now", 7))
            assert await answers(client, 1) == [(7, "now!")]
        doors.door("long").set()
        assert await answers(waiting, 1) == [(3, "long!")]


@pytest.mark.parametrize("drips", [False, True])
async def test_requests_that_do_not_go_on_keep_nobody_waiting_for_their_memory(
    caplog: pytest.LogCaptureFixture, drips: bool
) -> None:
    """They take all the memory that an agent may hold. If no other clients were waiting, they would be left alone."""
    doors, context = setup(
        max_agent_bytes=2048, max_offsets_wait_ms=SWEEPING_MS, max_request_bytes=4096
    )
    async with serving(context, doors.registry()) as server:
        stalled, other = await RawClient.connect(server.port), await RawClient.connect(server.port)
        host, port = stalled.writer.get_extra_info("sockname")
        stalled.send(struct.pack(">ihh", 4096, SEQUENTIAL, 0) + bytes(2048))
        async with asyncio.timeout(60):
            await until(lambda: server.budget.is_full, 0.01)
            other.send(frame(SEQUENTIAL, "now", 3) * 2)
            shorten(context, max_stall_ms=100)
            while drips and server.budget.is_full:
                stalled.send(b"\0")
                await asyncio.sleep(0.02)
            assert [found for found, _ in await answers(other, 2)] == [3, 3]
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await stalled.frame()
        assert server.budget.taken == 0
    (message,) = caplog.messages
    said = r"connection closed: only \d+ bytes of a request arrived in \d+ s, while other clients .* for memory"
    assert re.fullmatch(f"{host}:{port}: {said}", message)


async def test_a_size_without_bytes_keeps_nobody_waiting() -> None:
    """Only bytes that have arrived are counted, so many connections that have sent only a size hold nothing."""
    doors, context = setup(max_agent_bytes=2048, max_request_bytes=1 << 20)
    async with serving(context, doors.registry()) as server:
        silent = [await RawClient.connect(server.port) for _ in range(20)]
        for client in silent:
            client.send(struct.pack(">ihh", 1 << 20, SEQUENTIAL, 0))
        await until(lambda: server.budget.taken >= 20 * 4)
        assert server.budget.taken == 20 * 4
        other = await RawClient.connect(server.port)
        other.send(frame(SEQUENTIAL, "now", 3))
        assert await answers(other, 1) == [(3, "now!")]


async def test_stopping_answers_what_was_read() -> None:
    doors, context = setup()
    server = make_server(context, doors.registry())
    await server.start()
    client = await RawClient.connect(server.port)
    client.send(frame(PIPELINED, "a", 1) + frame(SEQUENTIAL, "now", 2))
    await doors.until(started=1)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(server.port)
    doors.door("a").set()
    assert await answers(client, 2) == [(1, "a!"), (2, "now!")]
    await stopping
    assert await client.is_closed()


async def test_stopping_takes_bounded_time() -> None:
    doors, context = setup(shutdown_grace_ms=50)
    server = make_server(context, doors.registry())
    await server.start()
    client = await RawClient.connect(server.port)
    client.send(frame(SEQUENTIAL, "for ever"))
    await doors.until(started=1)
    async with asyncio.timeout(60):
        await server.stop()


async def test_workers_share_a_port() -> None:
    one_doors, one = setup()
    first = make_server(one, one_doors.registry())
    await first.start(reuse_port=True)
    two_doors, two = setup(listeners=(Listener(port=first.port),))
    second = make_server(two, two_doors.registry())
    await second.start(reuse_port=True)
    clients = [await RawClient.connect(first.port) for _ in range(20)]
    for client in clients:
        client.send(frame(SEQUENTIAL, "now"))
        assert await answers(client, 1) == [(0, "now!")]
    assert one.metrics.connections_accepted + two.metrics.connections_accepted == 20
    await first.stop()
    await second.stop()


async def test_stopping_waits_for_a_large_answer_to_leave() -> None:
    async def handle(call: Call, request: bytes) -> bytes:
        return bytes(16 << 20)

    api = made_up_api(SEQUENTIAL, handle)
    server = make_server(make_context(ScriptedControl()), Registry([api]))
    await server.start()
    client = await RawClient.connect(server.port)
    client.send(frame(SEQUENTIAL, ""))
    await until(lambda: server.context.metrics.bytes_sent)
    stopping = asyncio.create_task(server.stop())
    assert len(await client.frame()) == 4 + (16 << 20)
    await stopping


@pytest.mark.parametrize("key", [PIPELINED, SEQUENTIAL])
async def test_an_answer_that_cannot_be_written_closes_the_connection(
    key: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, a client would wait forever, or take the next answer for this one."""

    async def handle(call: Call, request: bytes) -> bytes:
        return b""

    def write(response: bytes, version: int) -> list[Buffer]:
        raise KeyError("no such field")

    api = made_up_api(
        key,
        handle,
        buffers=write,
        refuse=lambda call, request, code: b"",
        pipelined=key == PIPELINED,
    )
    context = make_context(ScriptedControl())
    async with serving(context, Registry([api])) as server:
        client = await RawClient.connect(server.port)
        client.send(frame(key, "") * 2)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.frame()
        assert server.budget.taken == 0
    assert context.metrics.requests_failed >= 1
    assert "connection closed by an unexpected error" in caplog.text
