"""The oldest API versions, with any log, any limits and odd frames; kafka-python encodes and decodes (S14, S24)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from kafka.protocol.old.admin import (
    CreateTopicsRequest_v0,
    CreateTopicsRequest_v1,
    DeleteTopicsRequest_v0,
    DescribeConfigsRequest_v0,
)
from kafka.protocol.old.commit import (
    OffsetCommitRequest_v0,
    OffsetCommitRequest_v1,
    OffsetFetchRequest_v0,
    OffsetFetchRequest_v1,
)
from kafka.protocol.old.fetch import (
    FetchRequest_v0,
    FetchRequest_v1,
    FetchRequest_v2,
    FetchRequest_v3,
)
from kafka.protocol.old.list_offsets import ListOffsetsRequest_v0
from kafka.protocol.old.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest_v0,
    OffsetForLeaderEpochRequest_v1,
)
from kafka.protocol.old.produce import ProduceRequest_v0, ProduceRequest_v1, ProduceRequest_v2

from lacuna.agent.fetch.answers import READ_UNCOMMITTED
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import Log, Writer, make_batch, next_offset_of, records_of
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    client_of,
    encode_request,
    make_context,
    snapshot,
)
from tests.agent.legacy.asking import DescribeLogDirsRequest_v0, ask, body_of
from tests.agent.legacy.test_message_sets import fetch, served, values_in
from tests.agent.plane import cluster
from tests.seeds import seeds

UNKNOWN = 3  # UNKNOWN_TOPIC_OR_PARTITION
LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC = 17
TOPIC_EXISTS = 36
NOT_CONTROLLER = 41


@asynccontextmanager
async def connected(*topics: str) -> AsyncIterator[RawClient]:
    """A client of a new cluster that has these topics, with two partitions each."""
    async with cluster() as running:
        client = await RawClient.connect(running.server.port)
        if topics:
            await ask(client, CreateTopicsRequest_v0([(t, 2, 1, [], []) for t in topics], 1000))
        yield client
        await client.close()
        assert running.context.metrics.requests_failed == 0


async def test_topics_come_and_go() -> None:
    """CreateTopics v0 and v1, DeleteTopics v0, DescribeConfigs v0."""
    async with connected() as client:
        configs = [("retention.ms", "5000")]
        created = await ask(
            client,
            CreateTopicsRequest_v0([("a", 3, 1, [], configs), ("/", 1, 1, [], [])], 1000),
        )
        assert created.topics == [("a", 0), ("/", INVALID_TOPIC)]
        tried = await ask(client, CreateTopicsRequest_v1([("b", 1, 1, [], [])], 1000, True))
        assert tried.topics == [("b", 0, None)]
        assigned = CreateTopicsRequest_v1([("b", -1, -1, [(0, [1]), (1, [2])], [])], 1000, False)
        assert (await ask(client, assigned)).topics == [("b", 0, None)]
        ((name, code, message),) = (await ask(client, assigned)).topics
        assert (name, code) == ("b", TOPIC_EXISTS)
        assert message
        asked = [(2, "a", ["retention.ms", "cleanup.policy"]), (2, "nope", None)]
        described = await ask(client, DescribeConfigsRequest_v0(asked))
        known, unknown = described.resources
        assert known[:4] == (0, None, 2, "a")
        assert sorted(known[4]) == [
            ("cleanup.policy", "delete", False, True, False),
            ("retention.ms", "5000", False, False, False),
        ]
        assert (unknown[0], unknown[2:4], unknown[4]) == (UNKNOWN, (2, "nope"), [])
        deleted = await ask(client, DeleteTopicsRequest_v0(["a", "nope"], 1000))
        assert deleted.topic_error_codes == [("a", 0), ("nope", UNKNOWN)]


async def test_offsets_are_kept() -> None:
    """S26: OffsetCommit v0 and v1 and OffsetFetch v0 and v1 use the same offsets."""
    async with connected("t") as client:
        commit = OffsetCommitRequest_v0("g", [("t", [(0, 11, "mine"), (7, 1, "")])])
        assert (await ask(client, commit)).topics == [("t", [(0, 0), (7, UNKNOWN)])]
        commit = OffsetCommitRequest_v1("g", -1, "", [("t", [(1, 22, 1234, None)])])
        assert (await ask(client, commit)).topics == [("t", [(1, 0)])]
        commit = OffsetCommitRequest_v1("g", 5, "nobody", [("t", [(1, 99, -1, "")])])
        ((_, ((_, refused),)),) = (await ask(client, commit)).topics
        assert refused
        fetched = await ask(client, OffsetFetchRequest_v0("g", [("t", [0, 1, 7])]))
        assert fetched.topics == [("t", [(0, 11, "mine", 0), (1, 22, "", 0), (7, -1, "", UNKNOWN)])]
        fetched = await ask(client, OffsetFetchRequest_v1("g", [("t", [0, 1, 7])]))
        assert fetched.topics == [("t", [(0, 11, "mine", 0), (1, 22, "", 0), (7, -1, "", 0)])]


async def test_epochs() -> None:
    """OffsetForLeaderEpoch v0 and v1: the only epoch, 0, ends at the high watermark."""
    async with connected("t") as client:
        answer = await ask(client, OffsetForLeaderEpochRequest_v0([("t", [(0, 0), (9, 0)])]))
        assert answer.topics == [("t", [(0, 0, 0), (UNKNOWN, 9, -1)])]
        answer = await ask(client, OffsetForLeaderEpochRequest_v1([("t", [(0, 0), (1, 4)])]))
        assert answer.topics == [("t", [(0, 0, 0, 0), (0, 1, -1, -1)])]


async def test_sizes_of_partitions() -> None:
    """DescribeLogDirs v0 returns the sizes of all partitions, or of the named ones."""
    async with connected("t", "u") as client:
        for asked, topics in ((None, ["t", "u"]), ([("u", [0, 1])], ["u"])):
            answer = await ask(client, DescribeLogDirsRequest_v0(asked))
            ((code, directory, found),) = answer.log_dirs
            assert code == 0
            assert directory
            assert found == [(name, [(0, 0, 0, False), (1, 0, 0, False)]) for name in topics]


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (OffsetCommitRequest_v0("g", [("t", [(0, 1, "")])]), [("t", [(0, 15)])]),
        (OffsetCommitRequest_v1("g", -1, "", [("t", [(0, 1, -1, "")])]), [("t", [(0, 15)])]),
        (OffsetFetchRequest_v0("g", [("t", [0])]), [("t", [(0, -1, "", 15)])]),
        (CreateTopicsRequest_v0([("u", 1, 1, [], [])], 9), [("u", NOT_CONTROLLER)]),
        (DeleteTopicsRequest_v0(["t"], 9), [("t", NOT_CONTROLLER)]),
        (
            ListOffsetsRequest_v0(-1, [("t", [(0, -1, 1)])]),
            [("t", [(0, LEADER_NOT_AVAILABLE, [])])],
        ),
        (OffsetForLeaderEpochRequest_v0([("t", [(0, 0)])]), [("t", [(56, 0, -1)])]),
    ],
)
async def test_without_a_control_plane(request_: Any, refused: Any) -> None:
    """The clients know the error and retry."""
    control = ScriptedControl()
    control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=2)))
    control.otherwise = ControlPlaneUnavailable("away")
    async with client_of(make_context(control)) as client:
        answer = await ask(client, request_)
        names = answer.SCHEMA.names
        assert getattr(answer, names[-1]) == refused


LIMITS = FetchSettings(max_response_bytes=8192, read_ahead_bytes=0)


async def write(log: Log, source: Random) -> None:
    """Write plain and transactional batches of every codec and size, mixed."""
    open_ones: list[Writer] = []
    for number in range(source.randint(1, 40)):
        values = [b"%d" % number * source.randint(1, 300) for _ in range(source.randint(1, 5))]
        codec = source.choice(list(Codec))
        if source.random() < 0.3:
            await log.produce(make_batch(*values, codec=codec))
            continue
        if not open_ones or source.random() < 0.4:
            writer = await log.writer(f"tx{number}")
            open_ones.append(writer)
        else:
            writer = source.choice(open_ones)
        await writer.send(*values, codec=codec)
        if source.random() < 0.6:
            open_ones.remove(writer)
            await writer.end(committed=source.random() < 0.3)
    for writer in open_ones:
        await writer.end(committed=source.random() < 0.3)


async def everything(log: Log) -> list[tuple[int, bytes | None]]:
    """Return all records that read_uncommitted reads."""
    found: list[tuple[int, bytes | None]] = []
    offset = 0
    while (answer := await log.fetch(offset, isolation=READ_UNCOMMITTED)).records:
        found += [record for record in records_of(answer) if record[0] >= offset]
        offset = next_offset_of(answer)
    return found


async def walked(client: RawClient, version: int, size: int) -> list[tuple[int, bytes | None]]:
    """Read like an old client, which advances only by records and requests more after a partial one."""
    found: list[tuple[int, bytes | None]] = []
    offset, wanted = 0, size
    while True:
        error, watermark, sets = await fetch(client, version, offset, size=wanted)
        assert error == 0
        if not sets:
            return found
        assert version == 3 or len(sets) <= wanted
        records = values_in(sets, offset)
        if not records:
            assert version < 3
            assert len(sets) == wanted
            wanted *= 2
            continue
        found += records
        offset, wanted = records[-1][0] + 1, size
        assert offset <= watermark


@pytest.mark.parametrize("seed", seeds(4, 12))
async def test_s24_walks(seed: int) -> None:
    source = Random(seed)
    async with served(fetch=LIMITS) as it:
        for _ in range(2):
            await write(it.log, source)
            await it.compact()
            expected: list[Any] = await everything(it.log)
            for version in range(4):
                size = source.choice([30, 200, 1000, 100_000])
                assert await walked(it.client, version, size) == expected


_FETCHED = [("t", [(0, 5, 100), (1, 0, 100)]), ("u", [])]
_PRODUCED = [("t", [(0, b"set"), (1, b"")]), ("u", [(0, None)])]
REQUESTS: list[Any] = [
    ProduceRequest_v0(1, 9, _PRODUCED),
    ProduceRequest_v1(1, 9, _PRODUCED),
    ProduceRequest_v2(1, 9, _PRODUCED),
    FetchRequest_v0(-1, 1, 1, _FETCHED),
    FetchRequest_v1(-1, 1, 1, _FETCHED),
    FetchRequest_v2(-1, 1, 1, _FETCHED),
    FetchRequest_v3(-1, 1, 1, 1000, _FETCHED),
]


async def test_an_odd_frame_ends_its_connection_alone() -> None:
    """tests/agent/test_every_api.py sends such frames to the other APIs at each version."""
    async with cluster() as running:
        for request in REQUESTS:
            body = body_of(request)
            for odd in (body[:-1], b"\x7f" * 40, b"", body + b"\0"):
                client = await RawClient.connect(running.server.port)
                client.send(encode_request(request.API_KEY, request.API_VERSION, odd))
                assert await client.is_closed()
        client = await RawClient.connect(running.server.port)
        assert (await client.ask(18, 0)).error_code == 0
        await client.close()
        assert running.context.metrics.requests_failed == 0
