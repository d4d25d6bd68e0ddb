"""A client for the classic group APIs at every version, and a cluster with a topic (S26)."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import groups, offsets
from tests.agent.harness import RawClient
from tests.agent.plane import cluster, create_topic

NOBODY_ID = bytes(15) + b"M"


class Wire:
    """The connection of a member of the group `g`."""

    def __init__(self, client: RawClient) -> None:
        self.call = client.call

    async def join(self, version: int, member_id: str) -> Any:
        asked = groups.JoinGroupRequest(
            "g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[groups.JoinGroupRequestProtocol("range", b"m")],
        )
        return await self.call(version, asked)

    async def sync(
        self, version: int, joined: Any, *mine: bytes, protocol_name: str | None = "range"
    ) -> Any:
        """Assign `mine` to the member itself; without it, assign nothing."""
        asked = groups.SyncGroupRequest(
            "g",
            joined.generation_id,
            joined.member_id,
            protocol_type="consumer",
            protocol_name=protocol_name,
            assignments=[
                groups.SyncGroupRequestAssignment(joined.member_id, each) for each in mine
            ],
        )
        return await self.call(version, asked)

    async def enter(self) -> Any:
        """Join the group as its only member, so that it is stable."""
        joined = await self.join(3, "")
        assert joined.error_code == 0
        synced = await self.sync(3, joined, b"mine")
        assert synced.assignment == b"mine"
        return joined

    async def beat(self, version: int, joined: Any) -> int:
        asked = groups.HeartbeatRequest("g", joined.generation_id, joined.member_id)
        answer = await self.call(version, asked)
        return int(answer.error_code)

    async def commit(self, version: int, topic: str | bytes, **more: Any) -> list[int]:
        """Commit offset 5 for partition 0 and for 9, which does not exist, and return their error codes."""
        partitions = [
            offsets.OffsetCommitRequestPartition(index, 5, 0, committed_metadata="note")
            for index in (0, 9)
        ]
        row = offsets.OffsetCommitRequestTopic(*_name_and_id(topic), partitions)
        asked = offsets.OffsetCommitRequest("g", topics=[row])._replace(**more)
        return _codes(await self.call(version, asked))

    async def commit_in_transaction(
        self, version: int, topic: str, producer_id: int, producer_epoch: int, group_id: str = "g"
    ) -> list[int]:
        """Like `commit`, in a transaction."""
        partitions = [
            offsets.TxnOffsetCommitRequestPartition(index, 5, 0, "note") for index in (0, 9)
        ]
        asked = offsets.TxnOffsetCommitRequest(
            "x",
            group_id,
            producer_id,
            producer_epoch,
            topics=[offsets.TxnOffsetCommitRequestTopic(topic, partitions=partitions)],
        )
        return _codes(await self.call(version, asked))

    async def fetch(
        self, version: int, topic: str | bytes | None, require_stable: bool = False
    ) -> list[Any]:
        """Return the topics in the answer; None requests all topics."""
        old = new = None
        if topic is not None:
            name, topic_id = _name_and_id(topic)
            old = [offsets.OffsetFetchRequestTopic(name, (0, 9))]
            new = [offsets.OffsetFetchRequestTopics(name, topic_id, (0, 9))]
        group = offsets.OffsetFetchRequestGroup("g", topics=new)
        asked = offsets.OffsetFetchRequest("g", old, [group], require_stable)
        answer = await self.call(version, asked)
        (found,) = answer.groups if version >= 8 else [answer]
        assert found.error_code == 0
        return list(found.topics)


def _name_and_id(topic: str | bytes) -> tuple[str, bytes]:
    return (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)


def _codes(answer: Any) -> list[int]:
    return [int(each.error_code) for each in answer.topics[0].partitions]


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A cluster with the topic `t`, and connections to it."""

    port: int
    topic_id: bytes

    async def connect(self) -> Wire:
        return Wire(await RawClient.connect(self.port))


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    async with cluster() as started:
        yield Running(started.server.port, await create_topic(started.control, "t", 2))
        assert started.context.metrics.requests_failed == 0
