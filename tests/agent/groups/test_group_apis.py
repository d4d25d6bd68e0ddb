"""The group APIs over the wire, at every version, on a real control plane (S26)."""

import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from agent.apis.schema import request_class
from controlplane.client import InProcessClient
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
    DeleteTopics,
    TopicPartition,
)
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from tests.agent.harness import RawClient
from tests.agent.plane import cluster, hold_deltas

JOIN, SYNC, HEARTBEAT, LEAVE = 11, 14, 12, 13
COMMIT, FETCH, TXN_COMMIT = 8, 9, 28
DESCRIBE, LIST, DELETE = 15, 16, 42
INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN = 22, 25, 26
NOBODY_ID = UUID(int=77)


class Wire:
    """One connection that fills what a version has and leaves out what it lacks."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        cls = request_class(api_key, version)
        return await self.client.ask(api_key, version, **_known(cls, fields))

    async def join(self, version: int, member_id: str, **more: Any) -> Any:
        protocol = _entity(JOIN, version, "JoinGroupRequestProtocol", name="range", metadata=b"m")
        fields = {
            "group_id": "g",
            "session_timeout": timedelta(seconds=10),
            "rebalance_timeout": timedelta(seconds=30),
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
        """Into a stable group of one."""
        joined = await self.join(3, "")
        assert joined.error_code == 0
        synced = await self.sync(3, joined, {joined.member_id: b"mine"})
        assert synced.assignment == b"mine"
        return joined

    async def commit(
        self, version: int, topic: str | UUID, offset: int = 5, api_key: int = COMMIT, **more: Any
    ) -> list[int]:
        """Of partitions 0 and 9, the second of which does not exist; their error codes."""
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
            "retention_time": timedelta(milliseconds=-1),
            "topics": (entry,),
        }
        answer = await self.ask(api_key, version, **(fields | more))
        return [int(each.error_code) for each in answer.topics[0].partitions]

    async def fetch(
        self, version: int, topic: str | UUID | None, require_stable: bool = False
    ) -> list[Any]:
        """Topics of the answer; None: all."""
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
            assert getattr(answer, "error_code", 0) == 0
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


def _known(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in fields.items() if name in names}


def _entity(api_key: int, version: int, name: str, /, **fields: Any) -> Any:
    cls = getattr(sys.modules[request_class(api_key, version).__module__], name)
    return cls(**_known(cls, fields))


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A cluster with the topic `t`, and connections to it."""

    port: int
    topic_id: UUID

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
        yield Running(started.server.port, UUID(bytes=created.topic_id))
        assert started.context.metrics.requests_failed == 0


@pytest.mark.parametrize("version", range(10))
async def test_two_members_join_at_every_version(version: int) -> None:
    async with running() as run:
        one, two = await run.connect(), await run.connect()
        first = await one.join(version, "")
        if version >= 4:
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            first = await one.join(version, first.member_id)
        assert first.error_code == 0
        assert first.leader == first.member_id
        pending = await two.join(4, "")
        waiting = asyncio.create_task(two.join(version, pending.member_id))
        while (await _beat(one, 0, first)) == 0:
            await asyncio.sleep(0)
        first = await one.join(version, first.member_id)
        second = await waiting
        assert (first.generation_id, second.generation_id) == (2, 2)
        assert {member.member_id for member in first.members} == {
            first.member_id,
            second.member_id,
        }
        assert second.members == ()
        assert second.leader == first.member_id
        assert first.protocol_name == "range"
        assert getattr(first, "protocol_type", "consumer") == "consumer"


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


@pytest.mark.parametrize("version", range(6))
async def test_sync_and_heartbeat_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        synced = await wire.sync(version, joined, {joined.member_id: b"mine"})
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        assert getattr(synced, "protocol_name", "range") == "range"
        assert await _beat(wire, min(version, 4), joined) == 0
        stranger = dataclasses.replace(joined, member_id="x")
        assert await _beat(wire, min(version, 4), stranger) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_sync_v5_without_a_protocol_is_inconsistent() -> None:
    """KIP-559."""
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        answer = await wire.sync(5, joined, {}, protocol_name=None)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(1, 10))
async def test_s7_offsets_of_a_topic_that_another_agent_has_just_made(version: int) -> None:
    """Were it said that nothing is committed of it, a consumer would begin anew."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.plane)
        wire = Wire(await RawClient.connect(started.server.port))

        async def make(offset: int) -> bytes:
            wanted = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
            made = await elsewhere.call(Command(create_topics=wanted))
            topic_id = made.topics_created.topics[0].topic_id
            kept = CommittedOffset(partition=TopicPartition(topic_id=topic_id), offset=offset)
            commit = OffsetCommit(group_id="g", generation_id=-1, offsets=[kept])
            await elsewhere.call(Command(offset_commit=commit))
            return topic_id

        hold_deltas(started.control)
        first = await make(5)
        (topic,) = await wire.fetch(version, "t")
        assert [each.committed_offset for each in topic.partitions] == [5, -1]
        await elsewhere.call(Command(delete_topics=DeleteTopics(topic_ids=[first])))
        await make(7)
        (topic,) = await wire.fetch(version, "t")
        assert [each.committed_offset for each in topic.partitions] == [7, -1]
        await elsewhere.close()


@pytest.mark.parametrize("version", [2, 9, 10])
async def test_a_commit_for_a_topic_that_another_agent_has_just_made_and_grown(
    version: int,
) -> None:
    """librdkafka gives up what is committed for an unknown one."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.plane)
        wire = Wire(await RawClient.connect(started.server.port))
        hold_deltas(started.control)
        wanted = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
        made = await elsewhere.call(Command(create_topics=wanted))
        topic_id = made.topics_created.topics[0].topic_id
        named = UUID(bytes=topic_id) if version >= 10 else "t"
        assert await wire.commit(version, named) == [0, 3]
        grown = CreatePartitions(topics=[CreatePartitionsTopic(name="t", partition_count=10)])
        await elsewhere.call(Command(create_partitions=grown))
        assert await wire.commit(version, named) == [0, 0]
        await elsewhere.close()


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_says_no_generation(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        answer = await wire.join(version, "stranger")
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
        assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(6))
async def test_leave_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        codes = []
        for member_id in ("x", joined.member_id):
            if version < 3:
                answer = await wire.ask(LEAVE, version, group_id="g", member_id=member_id)
                codes.append(int(answer.error_code))
                continue
            member = _entity(
                LEAVE,
                version,
                "MemberIdentity",
                member_id=member_id,
                group_instance_id=None,
                reason="done",
            )
            answer = await wire.ask(LEAVE, version, group_id="g", members=(member,))
            assert answer.error_code == 0
            codes.extend(int(each.error_code) for each in answer.members)
        assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
        empty = await wire.ask(LEAVE, version, group_id="", member_id="x", members=())
        assert empty.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        topic, nobody = ("t", "u") if version < 10 else (run.topic_id, NOBODY_ID)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 3
        assert await wire.commit(version, topic) == [0, 3]
        assert await wire.commit(version, nobody) == [unknown, unknown]
        (found,) = await wire.fetch(5, "t")
        assert [each.committed_offset for each in found.partitions] == [5, -1]
        missing: dict[str, Any] = {
            "generation_id_or_member_epoch": 3,
            "member_id": "m",
            "group_id": "other",
        }
        expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert await wire.commit(version, topic, **missing) == [expected, 3]


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetches_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.commit(8, "t")
        topic, nobody = ("t", "u") if version < 10 else (run.topic_id, NOBODY_ID)
        for wanted in (topic, None) if version >= 2 else (topic,):
            (found,) = await wire.fetch(version, wanted)
            assert getattr(found, "name", "t") == "t"
            assert getattr(found, "topic_id", run.topic_id) == run.topic_id
            part = found.partitions[0]
            assert (part.committed_offset, part.metadata, part.error_code) == (5, "note", 0)
            assert getattr(part, "committed_leader_epoch", 0) == 0
        (found,) = await wire.fetch(version, nobody)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0
        assert [(each.committed_offset, each.error_code) for each in found.partitions] == [
            (-1, unknown),
            (-1, unknown),
        ]


async def test_a_fetch_of_everything_passes_over_a_topic_that_has_just_gone() -> None:
    """The view may be ahead of the reply or behind it: no name, no entry."""
    async with cluster() as started:
        wire = Wire(await RawClient.connect(started.server.port))
        create = CreateTopics(topics=[CreateTopic(name="t", partition_count=2)])
        await started.control.call(Command(create_topics=create))
        assert await wire.commit(8, "t") == [0, 3]
        known = started.control.cluster.topics_by_id
        hidden = dict(known)
        known.clear()
        assert await wire.fetch(8, None) == []
        known.update(hidden)
        assert len(await wire.fetch(8, None)) == 1


@pytest.mark.parametrize("version", range(6))
async def test_transactional_commits_at_every_version(version: int) -> None:
    """Pending until the end; a transaction that lacks the group hears it as its version knows it."""
    async with running() as run:
        wire = await run.connect()
        producer = await wire.ask(
            INIT_PRODUCER_ID,
            2,
            transactional_id="x",
            transaction_timeout=timedelta(seconds=60),
        )
        assert producer.error_code == 0
        who = {
            "transactional_id": "x",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }
        refusal = {4: ErrorCode.TRANSACTION_ABORTABLE, 5: 0}.get(
            version, ErrorCode.INVALID_TXN_STATE
        )
        assert await wire.commit(version, "t", 5, TXN_COMMIT, **who) == [refusal, 3]
        if version < 5:
            assert (await wire.ask(ADD_OFFSETS, 3, **who, group_id="g")).error_code == 0
            assert await wire.commit(version, "t", 5, TXN_COMMIT, **who) == [0, 3]
        assert await wire.commit(version, "u", 5, TXN_COMMIT, **who) == [3, 3]
        nameless = await wire.commit(version, "t", 5, TXN_COMMIT, **who, group_id="")
        assert nameless == [ErrorCode.INVALID_GROUP_ID, 3]
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        stale = who | {"producer_epoch": producer.producer_epoch - 1}
        if producer.producer_epoch > 0:
            fenced = await wire.commit(version, "t", 5, TXN_COMMIT, **stale)
            assert fenced == [ErrorCode.INVALID_PRODUCER_EPOCH, 3]
        assert (await wire.ask(END_TXN, 3, **who, committed=True)).error_code == 0
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].committed_offset == 5


@pytest.mark.parametrize("version", range(7))
async def test_describe_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        answer = await wire.ask(
            DESCRIBE, version, groups=("g", "no"), include_authorized_operations=True
        )
        group, nobody = answer.groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (member,) = group.members
        assert (member.member_id, member.client_id) == (joined.member_id, "test")
        assert member.client_host == "/127.0.0.1"
        assert (member.member_metadata, member.member_assignment) == (b"m", b"mine")
        assert getattr(group, "authorized_operations", 1) > 0
        assert nobody.group_state == "Dead"
        assert nobody.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert (getattr(nobody, "authorized_operations", 1) > 0) is (version < 6)


@pytest.mark.parametrize("version", range(6))
async def test_list_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.enter()
        await wire.commit(8, "t", group_id="h")
        answer = await wire.ask(LIST, version, states_filter=(), types_filter=())
        assert answer.error_code == 0
        assert {each.group_id: each.protocol_type for each in answer.groups} == {
            "g": "consumer",
            "h": "",
        }
        if version >= 4:
            answer = await wire.ask(LIST, version, states_filter=("Empty",), types_filter=())
            assert [each.group_id for each in answer.groups] == ["h"]
        if version >= 5:
            assert [each.group_type for each in answer.groups] == ["classic"]


@pytest.mark.parametrize("version", range(3))
async def test_delete_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.enter()
        await wire.commit(8, "t", group_id="h")
        answer = await wire.ask(DELETE, version, groups_names=("g", "h", "no"))
        assert [int(each.error_code) for each in answer.results] == [
            ErrorCode.NON_EMPTY_GROUP,
            0,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
