"""A client of the classic group APIs at every version, and a cluster with a topic (S26)."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.layout import Struct
from tests.agent.harness import RawClient
from tests.agent.plane import cluster
from tests.messages import REQUESTS, make, names, struct_of

JOIN, SYNC, HEARTBEAT, LEAVE = 11, 14, 12, 13


COMMIT, FETCH, TXN_COMMIT = 8, 9, 28


DESCRIBE, LIST, DELETE = 15, 16, 42


NOBODY_ID = bytes(15) + b"M"


class Wire:
    """A connection that fills in the fields of a version and leaves out the ones it lacks."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        known = _known(REQUESTS[api_key].body, version, fields)
        return await self.client.ask(api_key, version, **known)

    async def join(self, version: int, member_id: str, **more: Any) -> Any:
        protocol = _entity(JOIN, version, "JoinGroupRequestProtocol", name="range", metadata=b"m")
        fields = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": (protocol,),
            "reason": None,
        }
        return await self.ask(JOIN, version, **(fields | more))

    async def sync(
        self, version: int, joined: Any, assignments: dict[str, bytes], **more: Any
    ) -> Any:
        entries = tuple(
            _entity(SYNC, version, "SyncGroupRequestAssignment", member_id=name, assignment=value)
            for name, value in assignments.items()
        )
        fields = {
            "group_id": "g",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": entries,
        }
        return await self.ask(SYNC, version, **(fields | more))

    async def enter(self) -> Any:
        """Join a group alone until it is stable."""
        joined = await self.join(3, "")
        assert joined.error_code == 0
        synced = await self.sync(3, joined, {joined.member_id: b"mine"})
        assert synced.assignment == b"mine"
        return joined

    async def commit(
        self, version: int, topic: str | bytes, offset: int = 5, api_key: int = COMMIT, **more: Any
    ) -> list[int]:
        """Commit offsets of partitions 0 and 9, the second of which does not exist, and return their error codes."""
        prefix = "TxnOffsetCommit" if api_key == TXN_COMMIT else "OffsetCommit"
        partitions = tuple(
            _entity(
                api_key,
                version,
                f"{prefix}RequestPartition",
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=0,
                committed_metadata="note",
            )
            for partition in (0, 9)
        )
        names = {"name": topic, "topic_id": topic}
        entry = _entity(api_key, version, f"{prefix}RequestTopic", **names, partitions=partitions)
        fields = {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "retention_time_ms": -1,
            "topics": (entry,),
        }
        answer = await self.ask(api_key, version, **(fields | more))
        return [int(each.error_code) for each in answer.topics[0].partitions]

    async def fetch(
        self, version: int, topic: str | bytes | None, require_stable: bool = False
    ) -> list[Any]:
        """Return the topics of the answer; None requests all."""
        topics = None
        if topic is not None:
            cls = "OffsetFetchRequestTopic" + ("s" if version >= 8 else "")
            entry = _entity(
                FETCH, version, cls, name=topic, topic_id=topic, partition_indexes=(0, 9)
            )
            topics = (entry,)
        if version < 8:
            answer = await self.ask(
                FETCH, version, group_id="g", topics=topics, require_stable=require_stable
            )
            assert answer.error_code == 0
            return list(answer.topics)
        group = _entity(
            FETCH,
            version,
            "OffsetFetchRequestGroup",
            group_id="g",
            member_id=None,
            member_epoch=-1,
            topics=topics,
        )
        answer = await self.ask(FETCH, version, groups=(group,), require_stable=require_stable)
        assert [each.error_code for each in answer.groups] == [0]
        return list(answer.groups[0].topics)


def _known(struct: Struct, version: int, fields: dict[str, Any]) -> dict[str, Any]:
    known = names(struct, version)
    return {name: value for name, value in fields.items() if name in known}


def _entity(api_key: int, version: int, name: str, /, **fields: Any) -> Any:
    struct = struct_of(REQUESTS[api_key], name)
    return make(struct, version, **_known(struct, version, fields))


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
        topic = CreateTopic(name="t", partition_count=2)
        reply = await started.control.call(
            Command(create_topics=CreateTopics(topics=[topic])),
        )
        (created,) = reply.topics_created.topics
        assert created.error_code == 0
        yield Running(started.server.port, created.topic_id)
        assert started.context.metrics.requests_failed == 0


async def _beat(wire: Wire, version: int, joined: Any) -> int:
    answer = await wire.ask(
        HEARTBEAT,
        version,
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=None,
    )
    return int(answer.error_code)
