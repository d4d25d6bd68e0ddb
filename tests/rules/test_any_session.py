"""Sends arbitrary bytes on a session: only the sender may lose its stream, and the next client is served (S2)."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.client import CommandRefused, GrpcClient, SessionLimits
from lacuna.controlplane.service import RunningControlPlane, ServiceSettings, serve
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, SessionRequest
from lacuna.controlplane.v1.groups_pb2 import GroupProtocol, JoinGroup, ListGroups
from tests.controlplane.grpcio_session import open_session
from tests.rules.arbitrary import Arbitrary

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
    """No client of ours sends one, because the service would end the session with its other calls."""
    client = GrpcClient(running.address, Random(1).random, SessionLimits(give_up_after=60))
    client.start()
    joining = JoinGroup(group_id="g", protocols=[GroupProtocol(metadata=bytes(70 << 20))])
    commands = [Command(list_groups=ListGroups()) for _ in range(3)]
    async with asyncio.timeout(60):
        await client.cluster.ready()
        others = [asyncio.ensure_future(client.call(command)) for command in commands]
        with pytest.raises(CommandRefused, match="exceeds the bound"):
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
