"""ReadChunk: the ranges that an agent gives to others in its zone, and the requests that it refuses (adr/0039)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.logstore.segments.paths import parse_segment_key, segments_prefix
from lacuna.wire.peers import READ_CHUNK_KEY, ReadChunkRequest, ReadChunkResponse
from tests.agent.fetch.test_zone_reads import SHARING
from tests.agent.fetch.test_zone_reads import shared as shared_reads
from tests.clients.batch import batch
from tests.simulation.cluster import KAFKA_PORT
from tests.simulation.kafka import Client
from tests.simulation.stage import PARTS, Stage, staged

CHUNK = FetchSettings().chunk_bytes


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2, parts=SHARING)


def first_bytes(stage: Stage) -> ReadChunkRequest:
    """Return an agent's request for the first bytes of a segment."""
    cluster = stage.agents[1].running.context.control.cluster
    cluster_id = cluster.cluster_id
    key = next(iter(stage.around.bucket.objects.list(segments_prefix(cluster_id)))).key
    _, segment = parse_segment_key(key)
    return ReadChunkRequest(
        cluster.peer_secret, cluster_id, segment.lease_id, segment.sequence, 0, 8
    )


def ask(stage: Stage, **fields: Any) -> ReadChunkResponse:
    """Send the second agent a request for the first bytes of a segment; `fields` override those of the request."""
    request = first_bytes(stage)._replace(**fields)
    address = (stage.agents[1].name, KAFKA_PORT)

    async def answer() -> ReadChunkResponse:
        client = Client(stage.around.network, [address], stage.around.randomness("asker"))
        found: ReadChunkResponse = await client.ask(address, READ_CHUNK_KEY, 0, request)
        client.disconnect()
        return found

    return stage.run(answer())


def write(stage: Stage) -> None:
    assert stage.agents[0].target().verdict(stage.create_topic(), batch((b"v",))) == "NONE"


def test_a_range_is_given_whoever_owns_it(stage: Stage) -> None:
    write(stage)
    (data,) = ask(stage).data or ()
    assert len(data) == 8
    (again,) = ask(stage, position=3, size=5).data or ()
    assert again == data[3:]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"peer_secret": b""}, 31),
        ({"peer_secret": bytes(16)}, 31),
        ({"peer_secret": b"\xff"}, 31),
        ({"cluster_id": "another"}, 104),
        ({"cluster_id": "../journal"}, 104),
        ({"lease_id": -1}, 42),
        ({"sequence": -1}, 42),
        ({"sequence": 1 << 48}, 42),
        ({"position": -1}, 42),
        ({"size": 0}, 42),
        ({"size": CHUNK + CHUNK // 8 + 1}, 42),
        ({"position": CHUNK - 1, "size": CHUNK}, 42),
        ({"lease_id": 1 << 40}, 56),
        ({"position": 1 << 40}, 56),
    ],
)
def test_clients_and_what_is_no_range_of_a_segment_are_refused(
    stage: Stage, fields: dict[str, Any], code: int
) -> None:
    write(stage)
    assert ask(stage, **fields) == ReadChunkResponse(code)


@pytest.mark.parametrize("guess", [b"", bytes(16)])
def test_nothing_is_given_if_the_control_plane_has_told_no_secret(
    stage: Stage, guess: bytes
) -> None:
    """An older control plane sends no secret."""
    write(stage)
    stage.agents[1].running.context.control.cluster.peer_secret = b""
    assert ask(stage, peer_secret=guess) == ReadChunkResponse(31)


def test_agents_know_one_another_by_a_secret_that_nobody_logs(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    write(stage)
    caplog.set_level(logging.DEBUG)
    one, other = (agent.running.context.control.cluster for agent in stage.agents)
    secret = one.peer_secret
    assert len(secret) == 16
    assert other.peer_secret == secret
    assert ask(stage).error_code == 0
    assert ask(stage, lease_id=-1).error_code == 42
    assert repr(secret)[2:-1] not in caplog.text + repr(ReadChunkRequest(secret))
    assert secret.hex() not in caplog.text


def test_answers_take_a_bounded_part_of_memory_until_they_are_sent(stage: Stage) -> None:
    write(stage)
    shared, request = shared_reads(stage.agents[1]), first_bytes(stage)
    shared._max_answer_bytes = 2 * request.size

    answers: list[ReadChunkResponse] = []

    async def serve() -> None:
        answers.append(await shared.serve(request))

    async def serve_all() -> None:
        await asyncio.gather(serve(), serve(), serve())

    stage.run(serve_all())
    assert sorted(answer.error_code for answer in answers) == [0, 0, 89]
    # The chunk can be forgotten, and only the bytes to be sent are left.
    shared.chunks.clear()
    assert shared.outside_bytes == 2 * request.size
    assert ask(stage) == ReadChunkResponse(89)
    answers.clear()
    assert shared.outside_bytes == 0
    assert ask(stage).error_code == 0


def test_nothing_is_given_if_reads_are_not_shared() -> None:
    for stage in staged(agents=2, parts=PARTS):
        write(stage)
        assert ask(stage) == ReadChunkResponse(42)


def test_nothing_is_given_if_nobody_else_is_in_the_zone(stage: Stage) -> None:
    write(stage)
    stage.agents[0].retire()
    one = stage.agents[1].running.context.control.cluster
    stage.until(lambda: len(one.agents) == 1)
    assert ask(stage) == ReadChunkResponse(42)
