"""Tests a session's client against a control plane that sends scripted answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from lacuna.controlplane.client import CommandRefused, SessionClient, SessionLimits
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse
from lacuna.controlplane.v1.groups_pb2 import ListGroups, OffsetFetch, OffsetFetchGroup
from tests.controlplane.runtime.commands import heartbeat
from tests.loop_iterations import iterations


class Door:
    """A stream to a control plane."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[SessionResponse | None] = asyncio.Queue()
        self.heard: asyncio.Queue[SessionRequest] = asyncio.Queue()

    async def read(self) -> SessionResponse | None:
        return await self.said.get()

    async def write(self, request: SessionRequest) -> None:
        self.heard.put_nowait(request)

    def cancel(self) -> None:
        raise AssertionError("there is no reason to give this stream up")


def _offsets(**named: Any) -> Command:
    return Command(offset_fetch=OffsetFetch(groups=[OffsetFetchGroup(group_id="g", **named)]))


@pytest.mark.parametrize(
    ("command", "suspect_after", "is_sent_again"),
    [
        (Command(list_groups=ListGroups()), 0, False),
        (Command(list_groups=ListGroups()), 1_000, True),
        (heartbeat(), 0, True),
        (_offsets(all_partitions=True), 0, False),
        (_offsets(partitions=[TopicPartition()] * 101), 0, False),
        (_offsets(partitions=[TopicPartition()] * 100), 0, True),
    ],
)
async def test_what_may_have_silenced_a_leader_is_not_sent_to_the_next_one(
    command: Command, suspect_after: float, is_sent_again: bool
) -> None:
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    doors = [Door(), Door()]
    for door in doors:
        door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1, cluster=[snapshot]))
    closed = iter(doors)

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Door]:
        yield next(closed)

    limits = SessionLimits(suspect_after=suspect_after)
    sleep = partial(asyncio.sleep, 0.001)
    client = SessionClient(["a"], connect, lambda: 0.0, limits, sleep=lambda _: sleep())
    client.start()
    calling = asyncio.ensure_future(client.call(command))
    await doors[0].heard.get()
    doors[0].said.put_nowait(None)
    if is_sent_again:
        (again,) = (await doors[1].heard.get()).commands
        assert again == command
        calling.cancel()
    else:
        with pytest.raises(CommandRefused, match="was in progress when the control plane fell"):
            await calling
    await client.close()


async def test_nothing_is_sent_before_the_cluster_is_current() -> None:
    """A leader with a slow journal begins with an empty message to show that it is alive."""
    door = Door()

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Door]:
        yield door

    client = SessionClient(["a"], connect, lambda: 0.5)
    client.start()
    calling = asyncio.ensure_future(client.call(heartbeat()))
    door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1))
    await iterations()
    assert door.said.empty()
    assert not client.cluster.is_current
    assert door.heard.empty()
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    door.said.put_nowait(SessionResponse(cluster=[snapshot]))
    request = await door.heard.get()
    assert client.cluster.is_current
    (command,) = request.commands
    door.said.put_nowait(SessionResponse(replies=[Reply(command_id=command.command_id)]))
    assert (await calling).command_id == command.command_id
    await client.close()


async def test_many_partitions_are_subscribed_and_unsubscribed_by_several_messages() -> None:
    door = Door()

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Door]:
        yield door

    limits = SessionLimits(max_message_wishes=10, max_partitions=5)
    client = SessionClient(["a"], connect, lambda: 0.5, limits)
    client.start()
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1, cluster=[snapshot]))
    await client.cluster.ready()
    reading = [asyncio.ensure_future(client.partition(b"t" * 16, n).ready()) for n in range(25)]
    asked: list[int] = []
    while len(asked) < len(reading):
        request = await door.heard.get()
        assert len(request.subscribe) <= 10
        asked += [each.partition for each in request.subscribe]
    assert asked == [*range(25)]
    for each in reading:  # so all but five are unsubscribed
        each.cancel()
    calling = asyncio.ensure_future(client.call(heartbeat()))
    left: list[int] = []
    while len(left) < 20:
        request = await door.heard.get()
        assert len(request.unsubscribe) <= 10
        left += [each.partition for each in request.unsubscribe]
    assert left == [*range(20)]
    calling.cancel()
    await client.close()
