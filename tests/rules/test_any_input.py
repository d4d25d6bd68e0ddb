"""Tests that no commands, requests or bytes stop the control plane or an agent (S1, S2)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.agent.apis import discover
from lacuna.controlplane import machine
from lacuna.controlplane.client import CommandRefused, GrpcClient, SessionLimits
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.decision import Context
from lacuna.controlplane.service import RunningControlPlane, ServiceSettings, serve
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.state.front import check_front
from lacuna.controlplane.state.partition import deleted_delta
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import (
    ClusterDelta,
    CreateTopic,
    CreateTopics,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command, SessionRequest
from lacuna.controlplane.v1.groups_pb2 import GroupProtocol, JoinGroup, ListGroups
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.testing import Cluster as RunningCluster
from tests.agent.harness import NoFeed, encode_request
from tests.agent.requests import requests
from tests.clients.hurry import keep_leases
from tests.clients.wire import ClosedError, Connection
from tests.controlplane.grpcio_session import open_session
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.script import run
from tests.golden import messages as golden
from tests.messages import REQUESTS, encode_body
from tests.rules.arbitrary import Arbitrary

HISTORY = """
topic x 2
topic y 1
init t
init u
add t 1/0 x-0 x-1
put x-0 x3 1/0@0 txn
put x-0 x2
put x-1 x2 1/0@0 txn
end1 t 1/0 abort
put y-0 x4 2/0@0 tv2
put x-0 x1
delete-records x-0 1
"""


def _cluster() -> Cluster:
    cluster = Cluster(agents=2)
    run(HISTORY, cluster)
    return cluster


#: A moment, the timeouts of transactions, sessions and leases, the hour of windows, all expirations.
JUMPS_MS = (0, 700, 700, 1_000, 11_000, 40_000, 3_600_000, 8 * 86_400_000)


class _Watcher:
    """The state of a control plane's client: every partition that ever existed, built from deltas alone."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.cluster = ClusterView(NoFeed())
        self.cluster.apply(state.cluster_snapshot())
        self.views: dict[PartitionKey, PartitionView] = {}
        self.follow()

    def follow(self) -> None:
        """Apply the changes, and watch new partitions."""
        for delta in self.state.take_changes():
            if isinstance(delta, ClusterDelta):
                self.cluster.apply(delta)
            else:
                view = self.views[key_of(delta.partition)]
                before = _bounds(view)
                assert view.apply(delta), "no version was missed"
                went_back = any(new < old for new, old in zip(_bounds(view), before, strict=True))
                assert view.is_deleted or not went_back, "S3: no bound ever moves back"
                assert view.is_deleted or sorted(_bounds(view)) == list(_bounds(view))
        for key in self.state.partitions.keys() - self.views.keys():
            self.views[key] = PartitionView(*key, NoFeed())
            self.views[key].apply(self.state.watch(key))

    def check(self) -> None:
        """S3: the state built from deltas equals that of a new watcher."""
        for key, view in self.views.items():
            fresh = PartitionView(*key, NoFeed())
            found = self.state.partitions.get(key)
            fresh.apply(deleted_delta(key) if found is None else found.snapshot_delta())
            assert _seen(view) == _seen(fresh)
        assert set(self.cluster.topics_by_id) == set(self.state.topics)
        assert set(self.cluster.topics_by_name) == set(self.state.topics_by_name)
        assert list(self.cluster.agents) == self.state.live_agents()


def _bounds(view: PartitionView) -> tuple[int, int, int]:
    return view.log_start_offset, view.last_stable_offset, view.high_watermark


def _seen(view: PartitionView) -> object:
    if view.is_deleted:
        return "deleted"
    return (
        view.version,
        view.log_start_offset,
        view.last_stable_offset,
        view.high_watermark,
        view.vacated_to,
        view.extents.slice(0, len(view.extents)),
        list(zip(view.dead.firsts, view.dead.ends, strict=True)),
    )


def _check_sums(state: State) -> None:
    """Check values that are counted twice: references to objects, bytes, and open transactions by partition."""
    references: Counter[tuple[int, int]] = Counter()
    for partition in state.partitions.values():
        extents = partition.extents
        references.update(zip(extents.lease_ids, extents.sequences, strict=True))
        edges = [
            edge
            for row in zip(extents.base_offsets, extents.next_offsets, strict=True)
            for edge in row
        ]
        assert edges == sorted(edges)
        assert not edges or edges[-1] <= partition.high_watermark
        assert partition.size_bytes == sum(extents.sizes)
        check_front(partition)
        for producer_id in partition.ongoing:
            found = state.producers[producer_id]
            assert found.is_ongoing
            assert partition.key in found.partitions
    waiting = state.segments.releasing
    references.update(zip(waiting.lease_ids, waiting.sequences, strict=True))
    live = {row.key: row.live_extents for row in state.segments if row.live_extents}
    assert references == Counter(live)
    assert {row.key for row in state.segments} == live.keys() | state.segments.replaced.keys()


def _replayed(journal: list[bytes]) -> State:
    state = machine.State()
    for data in journal:
        machine.replay(state, JournalRecord.FromString(data))
    return state


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64), length=st.integers(1, 80))
def test_s2_any_commands_are_decided(seed: int, length: int) -> None:
    """Each command gets a reply or a parked token, and its records can be replayed. S3: watchers can follow."""
    cluster = _cluster()
    state = cluster.state
    watcher = _Watcher(state)
    draw = Arbitrary(Random(seed), state)
    for token in range(1, length):
        command = draw.command()
        before = machine.snapshot(state)
        context = Context(now_ms=cluster.now_ms, new_id=cluster.new_id, token=token)
        decision = machine.handle(state, command, context)
        assert machine.snapshot(state) == before, "deciding changes nothing durable"
        if decision.reply is not None:
            assert decision.reply.command_id == command.command_id
            if decision.reply.HasField("failure"):
                assert decision.reply.failure.error_code == ErrorCode.INVALID_REQUEST
                assert decision.reply.failure.message
                assert not decision.records
        cluster.decide(decision)
        if token % 9 == 0:
            cluster.tick(after_ms=draw.random.choice(JUMPS_MS))
        watcher.follow()
    watcher.check()
    _check_sums(state)
    after = machine.snapshot(state)
    assert machine.snapshot(_replayed(cluster.journal)) == after
    assert machine.snapshot(machine.restore((after,))) == after


REGISTRY = discover()
ALL = sorted({(key, each.version) for key in golden.API_NAMES for each in golden.requests(key)})
NOT_SERVED = sorted({key for key, version in ALL if REGISTRY.get(key, version) is None})
CORRELATION_ID = 5
END_SECONDS = 60.0


def _bodies(api_key: int, version: int) -> st.SearchStrategy[bytes]:
    """Return bodies of arbitrary requests, using Kafka's bytes for APIs that have no messages in Lacuna."""
    if api_key in REQUESTS:
        return requests(api_key, version).map(lambda asked: encode_body(api_key, version, asked))
    written = [each.body for each in golden.requests(api_key) if each.version == version]
    return st.sampled_from(written)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    """One agent, and the topic that arbitrary requests often name."""
    with RunningCluster() as running:
        keep_leases(running)
        running.create_topic("t", 2)
        yield running


def _is_answered(bootstrap: str, api_key: int, version: int, body: bytes) -> bool:
    """Return whether an answer arrived before the connection ended. Raises if neither happens.

    The client closes its sending side, so the connection also ends if a request waits or expects no answer.
    """
    with Connection(bootstrap, timeout=END_SECONDS) as connection:
        connection.send_bytes(encode_request(api_key, version, body, CORRELATION_ID))
        with contextlib.suppress(OSError):  # closed already
            connection.socket.shutdown(socket.SHUT_WR)
        try:
            answer = connection.receive_frame()
        except ClosedError:
            return False
        with pytest.raises(ClosedError):
            connection.receive_frame()
    assert int.from_bytes(answer[:4], "big") == CORRELATION_ID
    return True


@pytest.mark.parametrize("api_key", NOT_SERVED)
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_what_is_not_served_closes_that_connection(
    cluster: RunningCluster, api_key: int, data: st.DataObject
) -> None:
    versions = [v for key, v in ALL if key == api_key and REGISTRY.get(key, v) is None]
    version = data.draw(st.sampled_from(versions))
    body = data.draw(_bodies(api_key, version))
    assert not _is_answered(cluster.bootstrap, api_key, version, body)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_request_of_all_and_then_the_next_client(
    cluster: RunningCluster, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """The requests run on one cluster, and each encounters the changes that earlier ones made."""
    api_key, version = data.draw(st.sampled_from(ALL))
    body = data.draw(_bodies(api_key, version))
    answered = _is_answered(cluster.bootstrap, api_key, version, body)
    if REGISTRY.get(api_key, version) is None:
        assert not answered
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
    with Connection(cluster.bootstrap) as connection:
        assert connection.call("api_versions", 0)["error_code"] == 0


SESSION = "/controlplane.v1.ControlPlane/Session"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningControlPlane]:
    """The default control plane, as a service."""
    ids = itertools.count(1)
    served = await serve(
        "127.0.0.1:0",
        str(tmp_path / "control.db"),
        ServiceSettings(stop_grace=0.0),
        new_id=lambda: next(ids).to_bytes(16, "big"),
    )
    yield served
    await served.close()


async def _is_served(running: RunningControlPlane, name: str) -> None:
    client = GrpcClient(running.address, Random(1).random, SessionLimits(give_up_after=60))
    client.start()
    async with asyncio.timeout(60):
        topic = CreateTopic(name=name, partition_count=1)
        reply = await client.call(Command(create_topics=CreateTopics(topics=[topic])))
        created = reply.topics_created.topics[0]
        assert created.error_code == 0
        view = client.partition(created.topic_id, 0)
        await view.ready()
    await client.close()


def _request(random: Random, draw: Arbitrary) -> SessionRequest:
    def keys() -> list[TopicPartition]:
        return [
            TopicPartition(
                topic_id=random.choice((b"", b"short", bytes(16), (5).to_bytes(16, "big"))),
                partition=random.choice((-(2**31), -1, 0, 1, 2**31 - 1)),
            )
            for _ in range(random.randrange(4))
        ]

    return SessionRequest(
        contract=own_contract(),
        commands=[draw.command() for _ in range(random.randrange(5))],
        subscribe=keys(),
        unsubscribe=keys(),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_any_requests_of_a_session_are_taken(running: RunningControlPlane, seed: int) -> None:
    """Each command except a parked one gets its reply, with any subscriptions."""
    random = Random(seed)
    draw = Arbitrary(random, machine.State())
    async with grpc.aio.insecure_channel(running.address) as channel:
        stream = open_session(channel)
        assert (await stream.read()).cluster[0].is_snapshot
        asked = set()
        for number in itertools.count(1, 5):
            if number > 300:
                break
            request = _request(random, draw)
            for offset, command in enumerate(request.commands):
                command.command_id = number + offset
                if command.WhichOneof("verb") not in ("join_group", "sync_group"):
                    asked.add(command.command_id)
            await stream.write(request)
        async with asyncio.timeout(60):
            while asked:
                answered = await stream.read()
                asked -= {reply.command_id for reply in answered.replies}
        stream.cancel()
    await _is_served(running, f"after-{seed}")


async def test_a_command_that_no_message_can_hold_is_refused_alone(
    running: RunningControlPlane,
) -> None:
    """None of our clients sends one, because the service would end the session along with its other calls."""
    client = GrpcClient(running.address, Random(1).random, SessionLimits(give_up_after=60))
    client.start()
    joining = JoinGroup(group_id="g", protocols=[GroupProtocol(metadata=bytes(70 << 20))])
    commands = [Command(list_groups=ListGroups()) for _ in range(3)]
    async with asyncio.timeout(60):
        await client.cluster.ready()
        others = [asyncio.ensure_future(client.call(command)) for command in commands]
        with pytest.raises(CommandRefused, match="exceeds the limit"):
            await client.call(Command(join_group=joining))
        assert len(await asyncio.gather(*others)) == 3
        assert client.cluster.is_current, "the session is the first one still"
    await client.close()
    await _is_served(running, "after")


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x52", b"\0" * 64]
)
async def test_bytes_that_are_no_request_end_that_stream_only(
    running: RunningControlPlane, data: bytes
) -> None:
    """The stream ends with a reason and does not stay open without a reader."""
    async with grpc.aio.insecure_channel(running.address) as channel:
        method: Any = channel.stream_stream
        stream = method(SESSION)()
        async with asyncio.timeout(60):
            assert await stream.read()
            await stream.write(data)
            with pytest.raises(grpc.aio.AioRpcError, match="other than a SessionRequest"):
                await stream.read()
    await _is_served(running, "after")
