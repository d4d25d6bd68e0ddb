"""Tests the process: its address, health, shutdown and restarts."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lacuna.controlplane import listening, machine
from lacuna.controlplane.client import ControlPlaneUnavailable, GrpcClient, SessionLimits
from lacuna.controlplane.client.grpc import CallError, ask_once
from lacuna.controlplane.journal.journal import JournalInUse
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.service import (
    RunningControlPlane,
    ServiceSettings,
    new_cluster_id,
    serve,
)
from lacuna.controlplane.serving import MOST_TOLD, serve_session
from lacuna.controlplane.session import RuntimeSession
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse
from lacuna.controlplane.verbs.verb import Verb
from tests.controlplane.grpcio_session import open_session
from tests.controlplane.runtime.rig import (
    Rig,
    await_members,
    commit,
    created,
    heartbeat,
    join,
    mistaken,
)

Serve = Callable[..., Awaitable[RunningControlPlane]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Serve]:
    """Serve a journal. Takes the keyword arguments `address` and `settings`."""
    started: list[RunningControlPlane] = []
    ids = itertools.count(1)

    async def start(
        address: str = "127.0.0.1:0", settings: RuntimeSettings | None = None
    ) -> RunningControlPlane:
        running = await serve(
            address,
            str(tmp_path / "control.db"),
            ServiceSettings(runtime=settings or RuntimeSettings(), stop_grace=0.0),
            new_id=lambda: next(ids).to_bytes(16, "big"),
            prepare=await_members,
        )
        started.append(running)
        return running

    yield start
    for running in started:
        await running.close()


async def connected(address: str, give_up_after: float = 60) -> GrpcClient:
    """Return a connected client that gives up this many seconds after losing its session."""
    client = GrpcClient(address, lambda: 0.5, SessionLimits(give_up_after=60))
    client.start()
    await client.cluster.ready()
    client._limits = replace(client._limits, give_up_after=give_up_after)
    return client


async def test_a_restart_goes_on_where_it_stopped(start: Serve, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    running = await start(address)
    assert running.address == address
    client = await connected(address)
    topic_id = await created(client)
    await client.call(commit(topic_id))
    before, cluster_id = running.runtime.serialized_state(), client.cluster.cluster_id
    assert cluster_id == new_cluster_id(lambda: (1).to_bytes(16, "big"))
    assert len(cluster_id) == 22
    await client.close()
    await running.close()
    again = await start(address)
    client = await connected(address)
    assert again.runtime.serialized_state() == before
    assert client.cluster.cluster_id == cluster_id
    await client.close()


async def test_health_answers(start: Serve) -> None:
    running = await start()
    async with grpc.aio.insecure_channel(running.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "ready", "controlplane.v1.ControlPlane"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    "method", ["/grpc.health.v1.Health/Check", "/controlplane.v1.ControlPlane/Status"]
)
async def test_a_request_that_is_none_is_the_clients_mistake(start: Serve, method: str) -> None:
    running = await start()
    with pytest.raises(CallError, match="the request is not a") as refused:
        await ask_once(running.address, method, b"\xff", 60.0)
    assert refused.value.status == "INVALID_ARGUMENT"


async def test_a_second_one_on_the_same_data_is_refused(start: Serve) -> None:
    await start()
    with pytest.raises(JournalInUse, match="another control plane"):
        await start()


async def test_an_address_in_use_is_an_error_and_gives_the_journal_back(start: Serve) -> None:
    running = await start()
    address = running.address
    await running.close()
    blocker = await asyncio.start_server(lambda reader, writer: None, *address.split(":"))
    with pytest.raises(OSError, match=f"cannot listen on {address}"):
        await start(address)
    blocker.close()
    await blocker.wait_closed()
    await start(address)


async def test_what_ends_the_runtime_is_told(start: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error ends the process, and clients learn that no answer will come."""
    running = await start()
    # A heartbeat may be sent again, and waits for another control plane until the client gives up.
    client = await connected(running.address, give_up_after=0.2)
    monkeypatch.setitem(machine.VERBS, "heartbeat", Verb(mistaken))
    with pytest.raises(ControlPlaneUnavailable, match="a mistake of ours"):
        await client.call(heartbeat())
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        await running.failed()
    await client.close()


async def test_a_session_is_ended_cleanly_from_either_side(start: Serve) -> None:
    running = await start()
    async with grpc.aio.insecure_channel(running.address) as channel:
        stream = open_session(channel)
        assert (await stream.read()).cluster[0].is_snapshot
        await stream.write(SessionRequest(contract=own_contract(), unsubscribe=[TopicPartition()]))
        await stream.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="the client has ended the session"):
            await stream.read()
        second = open_session(channel)
        assert (await second.read()).cluster[0].is_snapshot
        await running.runtime.close()
        with pytest.raises(grpc.aio.AioRpcError, match="the control plane was stopped"):
            await second.read()
        third = open_session(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="stopped"):
            await third.read()


async def test_a_session_outlives_the_age_of_its_connection(
    start: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, calls would fail with an unknown outcome once an hour."""
    monkeypatch.setitem(listening._OPTIONS, "grpc.max_connection_age_ms", 50)
    running = await start()
    client = await connected(running.address)
    ended: list[RuntimeSession] = []
    monkeypatch.setattr(running.runtime, "close_session", ended.append)
    for _ in range(20):
        await client.call(heartbeat())
        await asyncio.sleep(0.02)
    assert not ended
    await client.close()


async def test_a_session_that_asks_for_too_much_is_ended(start: Serve) -> None:
    running = await start(settings=RuntimeSettings(max_subscriptions=1))
    async with grpc.aio.insecure_channel(running.address) as channel:
        stream = open_session(channel)
        await stream.read()
        keys = [TopicPartition(topic_id=bytes(16), partition=partition) for partition in range(2)]
        await stream.write(SessionRequest(contract=own_contract(), subscribe=keys))
        with pytest.raises(grpc.aio.AioRpcError, match="may watch at most 1 partitions"):
            await stream.read()


async def test_an_abort_ends_streams_without_an_answer(start: Serve) -> None:
    running = await start()
    client = await connected(running.address)
    parked = asyncio.ensure_future(client.call(join()))
    await client.call(heartbeat())
    await running.abort()
    with pytest.raises(ControlPlaneUnavailable):
        await parked
    await client.close()
    again = await start()
    assert again.runtime.cluster_id == running.runtime.cluster_id


async def test_many_partitions_are_shown_by_several_messages() -> None:
    """Neither end processes all of them in one step, even if the client reads slowly."""
    rig = await Rig().start()
    keys = [TopicPartition(topic_id=b"t" * 16, partition=each) for each in range(3 * MOST_TOLD)]
    messages: list[SessionResponse] = []
    has_all = asyncio.Event()

    async def requests() -> AsyncIterator[SessionRequest]:
        yield SessionRequest(contract=own_contract(), subscribe=keys)
        await has_all.wait()

    async def write(response: SessionResponse) -> None:
        messages.append(response)
        if sum(len(each.partitions) for each in messages) == len(keys):
            has_all.set()

    with pytest.raises(ControlPlaneUnavailable, match="the client has ended the session"):
        await serve_session(rig.runtime, requests(), write, 10 * MOST_TOLD)
    shown = [each.partition.partition for message in messages for each in message.partitions]
    assert shown == [*range(len(keys))]
    assert max(len(message.partitions) for message in messages) <= MOST_TOLD
    await rig.runtime.close()
