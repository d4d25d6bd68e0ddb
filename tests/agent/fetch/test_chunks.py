"""The chunks that an agent reads for its zone, and its connections to other agents (adr/0039)."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lacuna.agent.fetch import chunks
from lacuna.agent.fetch.chunks import ChunkCache, ChunkId, ChunksBusyError
from lacuna.agent.fetch.peer_requests import PeerError, PeerRequests
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectNotFoundError, ShortReadError
from lacuna.testing.faults import FaultyStore
from lacuna.wire.peers import READ_CHUNK_RESPONSE, ReadChunkRequest, ReadChunkResponse
from tests.doubles.clock import iterations, until

CHUNK = 1600
BEYOND = CHUNK // 8
OBJECT = bytes(range(256)) * 20
FIRST, SECOND = ChunkId(1, 1, 0), ChunkId(1, 1, 1)


class Kept:
    """A cache for the chunks of one object, with its reads and reported sizes."""

    def __init__(
        self, executor: ThreadPoolExecutor, max_bytes: int = 1 << 20, max_reads: int = 4
    ) -> None:
        self.store = FaultyStore(MemoryStore())
        self.store.put("k", [OBJECT])
        self.sizes: list[int] = []
        self.chunks = ChunkCache(
            self.store,
            executor,
            chunk_bytes=CHUNK,
            max_bytes=max_bytes,
            max_reads=max_reads,
            on_size=self.sizes.append,
        )

    async def get(self, position: int, size: int) -> None:
        """Read a range, and check that its bytes are those of the object."""
        chunk = ChunkId(1, 1, position // CHUNK)
        found = await self.chunks.get(chunk, "k", position, size)
        assert found == OBJECT[position : position + size]
        assert found.readonly

    @property
    def bytes_read(self) -> int:
        return self.store.metrics.bytes_read

    @property
    def gets(self) -> int:
        return self.store.metrics.gets


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as found:
        yield found


async def test_one_small_range_is_read_alone(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(10, 20)
    await kept.get(12, 5)
    assert (kept.gets, kept.bytes_read) == (1, 20)


async def test_a_second_range_reads_the_chunk_and_what_a_piece_may_have_beyond(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor)
    await kept.get(10, 20)
    await kept.get(CHUNK - 30, 40)
    assert (kept.gets, kept.bytes_read) == (2, 20 + CHUNK + BEYOND)
    for position in range(0, CHUNK, 50):
        await kept.get(position, BEYOND)
    assert kept.gets == 2
    assert kept.sizes[-1] == kept.chunks.bytes_now < CHUNK + BEYOND + 1000


async def test_a_long_range_reads_the_chunk_at_once(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(CHUNK, CHUNK // 16)
    await kept.get(2 * CHUNK - 5, 10)
    assert kept.gets == 1


async def test_the_last_chunk_ends_with_the_object(executor: ThreadPoolExecutor) -> None:
    kept, last = Kept(executor), len(OBJECT) // CHUNK * CHUNK
    await kept.get(last, len(OBJECT) - last)
    assert kept.bytes_read == len(OBJECT) - last
    with pytest.raises(ShortReadError):
        await kept.get(len(OBJECT) - 5, 10)


async def test_those_who_ask_at_once_share_a_read_and_may_be_cancelled(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor)
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(200 * number, 150)) for number in range(4)]
    await asyncio.to_thread(hold.wait_until_reached)
    asked[0].cancel()
    hold.release()
    await asyncio.gather(*asked[1:])
    assert asked[0].cancelled()
    assert kept.gets == 1


async def test_an_error_is_everybodys_and_is_not_kept(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    for _ in range(2):
        with pytest.raises(ObjectNotFoundError):
            await kept.chunks.get(FIRST, "none", 0, 10)
    assert kept.chunks.bytes_now == 0
    await kept.get(0, 10)


async def test_what_is_kept_and_what_is_being_read_are_bounded(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=2 * (CHUNK + BEYOND))
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(CHUNK * number, CHUNK // 2)) for number in range(3)]
    await asyncio.to_thread(hold.wait_until_reached)
    await iterations()
    assert kept.chunks.bytes_reading == 2 * (CHUNK + BEYOND)
    hold.release()
    await asyncio.gather(*asked)
    assert kept.chunks.bytes_reading == 0
    assert CHUNK < kept.chunks.bytes_now <= 2 * (CHUNK + BEYOND)
    kept.chunks.clear()
    assert kept.chunks.bytes_now == kept.sizes[-1] == 0


async def test_what_nobody_waits_for_any_more_is_not_read(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor, max_reads=1)
    hold = kept.store.hold("get")
    first = asyncio.ensure_future(kept.get(0, 10))
    await asyncio.to_thread(hold.wait_until_reached)
    asked = [asyncio.ensure_future(kept.get(CHUNK + start, 10)) for start in (0, 0, 2)]
    await iterations()
    asked[0].cancel()
    asked[2].cancel()
    await iterations()
    again = asyncio.ensure_future(kept.get(CHUNK + 2, 10))
    hold.release()
    await asyncio.gather(first, asked[1], again)
    # One of the two that wanted the same range is left, and the abandoned read is started again.
    assert kept.gets == 3


async def test_no_more_reads_are_begun_than_can_wait(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MOST_FLIGHTS", 2)
    kept = Kept(executor)
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(CHUNK * number, 10)) for number in range(2)]
    await asyncio.to_thread(hold.wait_until_reached)
    with pytest.raises(ChunksBusyError):
        await kept.get(2 * CHUNK, 10)
    asked.append(asyncio.ensure_future(kept.get(5, 5)))
    await iterations()
    hold.release()
    await asyncio.gather(*asked)
    await kept.get(2 * CHUNK, 10)
    assert kept.gets == 3


async def test_after_all_is_forgotten_chunks_are_read_whole_again(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=CHUNK + BEYOND)
    await kept.get(0, CHUNK // 16)  # is dropped immediately, since it does not fit
    kept.chunks.clear()
    before = kept.bytes_read
    await kept.get(CHUNK, CHUNK // 16)
    assert kept.bytes_read - before == CHUNK + BEYOND


async def test_without_room_for_whole_chunks_they_are_not_read(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=CHUNK)
    await kept.get(0, CHUNK // 16)  # is dropped immediately, since it does not fit
    before = kept.bytes_read
    await kept.get(0, CHUNK // 16)
    assert kept.bytes_read - before == CHUNK // 16


async def test_a_chunk_that_is_forgotten_is_read_again(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(CHUNK, 200)
    kept.chunks.forget(FIRST)
    await kept.get(CHUNK, 200)
    assert kept.gets == 1
    kept.chunks.forget(SECOND)
    assert kept.chunks.bytes_now == 0
    await kept.get(CHUNK, 200)
    assert kept.gets == 2


DATA = b"12345678"
REQUEST = ReadChunkRequest(bytes(16), "c", 1, 1, 0, len(DATA))
#: Longer than anything here takes.
PATIENCE = 60.0

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Owner:
    """An agent that returns `answers` in order, and then answers correctly."""

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
        ([sound, too_long], "claims to be 1073741824 bytes long"),
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
    await until(lambda: not line.is_open)
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
