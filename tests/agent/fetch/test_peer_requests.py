"""Connections to other agents: reused while they are open, and reopened once they are stale (adr/0039)."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from lacuna.agent.fetch.peer_requests import PeerError, PeerRequests
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.peers import READ_CHUNK_RESPONSE, ReadChunkRequest, ReadChunkResponse

DATA = b"12345678"
REQUEST = ReadChunkRequest(bytes(16), "c", 1, 1, 0, len(DATA))
#: Nothing here takes as long.
PATIENCE = 60.0

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Owner:
    """An agent that answers each request with the next of `answers`, and correctly after the last one."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.agent = Agent(node_id=2, host="127.0.0.1")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while not writer.is_closing():
                await (self.answers.pop(0) if self.answers else sound)(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """Read the next request, and return its correlation id."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return (await reader.readexactly(size))[4:8]


async def sound(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answer = await request_of(reader) + READ_CHUNK_RESPONSE.write(
        ReadChunkResponse(data=(DATA,)), 0
    )
    writer.write(struct.pack(">i", len(answer)) + answer)


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_of(reader)
    writer.close()


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answer = await request_of(reader)
    writer.write(struct.pack(">i", 20) + answer)
    writer.close()


async def too_long(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_of(reader)
    writer.write(struct.pack(">i", 1 << 30))
    await reader.read()


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    server = await asyncio.start_server(owner.serve, "127.0.0.1", 0)
    owner.agent.port = server.sockets[0].getsockname()[1]
    yield owner
    for writer in owner.writers:
        writer.close()
    server.close()
    await server.wait_closed()


@pytest.fixture
async def requests() -> AsyncIterator[PeerRequests]:
    requests = PeerRequests(PATIENCE, 1 << 20)
    yield requests
    requests.close()


async def ask(requests: PeerRequests, owner: Owner) -> bytes | None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    found = await requests.ask(owner.agent, REQUEST, deadline)
    return None if found is None else bytes(found)


async def test_a_connection_is_used_again(owner: Owner, requests: PeerRequests) -> None:
    for _ in range(3):
        assert await ask(requests, owner) == DATA
    assert owner.connections == 1
    assert requests.connections() == (0, 1, 16)


async def test_a_request_is_tried_once_more_if_a_connection_turns_out_to_be_closed(
    owner: Owner, requests: PeerRequests
) -> None:
    owner.answers = [sound, hang_up, sound]
    assert await ask(requests, owner) == DATA
    assert await ask(requests, owner) == DATA
    assert owner.connections == 2


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([hang_up], "closed the connection"),
        ([sound, hang_up, hang_up], "closed the connection"),
        ([sound, half], "closed the connection"),
        ([sound, too_long], "claims 1073741824 bytes"),
    ],
)
async def test_who_breaks_off_is_not_asked_again_and_again(
    owner: Owner, requests: PeerRequests, answers: list[Answer], why: str
) -> None:
    owner.answers = list(answers)
    for _ in range(answers.count(sound)):
        assert await ask(requests, owner) == DATA
    with pytest.raises(PeerError, match=why):
        await ask(requests, owner)
    assert owner.answers == []


async def test_nothing_is_kept_of_who_closes(owner: Owner, requests: PeerRequests) -> None:
    assert await ask(requests, owner) == DATA
    (peer,) = requests._peers.values()
    (line,) = peer.lines
    owner.writers[0].close()
    while line.is_open:
        await asyncio.sleep(0)
    assert requests._peers == {}


async def test_nothing_is_kept_of_who_cannot_be_reached(
    owner: Owner, requests: PeerRequests, unused_tcp_port: int
) -> None:
    owner.agent.port = unused_tcp_port
    with pytest.raises(PeerError, match="cannot be reached"):
        await ask(requests, owner)
    assert requests._peers == {}


async def test_after_the_end_nobody_is_asked_and_nobody_blamed(
    owner: Owner, requests: PeerRequests
) -> None:
    seen = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await request_of(reader)
        seen.set()
        await reader.read()

    owner.answers = [sound, never]
    assert await ask(requests, owner) == DATA
    waiting = asyncio.ensure_future(ask(requests, owner))
    await seen.wait()
    requests.close()
    assert await waiting is None
    assert await ask(requests, owner) is None
    assert owner.connections == 1
    assert requests._peers == {}
