"""ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge, DescribeShareGroupOffsets,
AlterShareGroupOffsets and DeleteShareGroupOffsets at every version, and their errors (KIP-932).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lacuna.agent.fetch.acquired import read_acquired
from lacuna.agent.housekeeping.dead_letters import Burial
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import SET
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, SecurityChanges
from lacuna.logstore.records.batch import BatchToWrite, NewRecord, Record, read_batches
from lacuna.wire.messages import produce as wire
from lacuna.wire.messages import share_groups as groups
from lacuna.wire.messages import share_records as records
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.doubles.clock import until

GROUP = "queue"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


async def begin(setup: Setup, reset: str = "earliest") -> bytes:
    """Create a topic with six records and a share group with the member `me`; return the topic's id."""
    await setup.create("t")
    for _ in range(2):
        await produce(setup)
    await configure(setup, "share.auto.offset.reset", reset)
    answer = await beat(setup, 0)
    ((topic_id, partitions),) = answer.assignment.topic_partitions
    assert partitions == (0,)
    return bytes(topic_id)


async def configure(setup: Setup, name: str, value: str) -> None:
    change = ConfigChange(name=name, operation=SET, value=value)
    altered = AlterGroupConfigs(group_id=GROUP, changes=[change])
    reply = await setup.running.control.call(Command(alter_group_configs=altered))
    assert not reply.group_configs_altered.error_code


def commands_of(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Return a list that receives the commands that the agent sends from now on."""
    commands: list[Command] = []
    call = setup.running.control.call

    async def noted(command: Command) -> Reply:
        commands.append(command)
        return await call(command)

    monkeypatch.setattr(type(setup.running.control), "call", lambda _, command: noted(command))
    return commands


async def letters(setup: Setup, name: str) -> list[Record]:
    known = setup.running.control.cluster.topics_by_name[name]
    view = setup.running.control.partition(known.topic_id, 0)
    await view.ready()
    read = await read_acquired(setup.running.context.fetch, view, [(0, view.high_watermark)])
    return [each for batch in read_batches(b"".join(read.records)) for each in batch.records()]


async def produce(setup: Setup, count: int = 3, value: bytes = b"v") -> None:
    now_ms = setup.running.context.clock.now_ms()
    new = tuple(NewRecord(offset_delta=n, timestamp=now_ms, value=value) for n in range(count))
    part = wire.PartitionProduceData(0, memoryview(BatchToWrite(records=new).encode()))
    data = wire.TopicProduceData("t", partition_data=[part])
    asked = wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
    answer = await setup.client.call(9, asked)
    assert not answer.responses[0].partition_responses[0].error_code


async def beat(setup: Setup, epoch: int, member_id: str = "me") -> Any:
    return await setup.client.call(
        1,
        groups.ShareGroupHeartbeatRequest(
            GROUP, member_id, epoch, subscribed_topic_names=("t",) if epoch == 0 else None
        ),
    )


async def fetch(
    setup: Setup,
    epoch: int,
    topic_id: bytes,
    *acknowledged: tuple[int, int, int],
    version: int = 2,
    client: RawClient | None = None,
    **fields: Any,
) -> Any:
    batches = [
        records.AcknowledgementBatch(first, last, (kind,)) for first, last, kind in acknowledged
    ]
    asked = records.ShareFetchRequest(
        group_id=GROUP,
        member_id="me",
        share_session_epoch=epoch,
        max_records=fields.pop("max_records", 100),
        is_renew_ack=any(kind == RENEW for _, _, kind in acknowledged),
        topics=[records.FetchTopic(topic_id, [records.FetchPartition(0, batches)])],
    )
    async with asyncio.timeout(60):
        return await (client or setup.client).call(version, asked._replace(**fields))


async def acknowledge(
    setup: Setup, epoch: int, topic_id: bytes, first: int, last: int, kind: int = ACCEPT
) -> Any:
    batch = records.AcknowledgementBatch(first, last, (kind,))
    partition = records.AcknowledgePartition(0, [batch])
    return await setup.client.call(
        2,
        records.ShareAcknowledgeRequest(
            GROUP, "me", epoch, topics=[records.AcknowledgeTopic(topic_id, [partition])]
        ),
    )


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """Return the ranges that an answer acquired, after checking that its batches have these offsets."""
    assert not answer.error_code
    assert answer.acquisition_lock_timeout_ms == 30_000
    (topic,) = answer.responses
    (partition,) = topic.partitions
    assert not partition.error_code
    held = {
        record.offset
        for batch in read_batches(b"".join(partition.records))
        for record in batch.records()
    }
    for first, last, _ in partition.acquired_records:
        assert set(range(first, last + 1)) <= held
    return [tuple(each) for each in partition.acquired_records]


@pytest.mark.parametrize("version", [1, 2])
async def test_records_are_acquired_and_acknowledged(setup: Setup, version: int) -> None:
    topic_id = await begin(setup)
    answer = await fetch(setup, 0, topic_id, version=version, max_records=4)
    assert acquired(answer) == [(0, 3, 1)]
    answer = await fetch(setup, 1, topic_id, (0, 1, ACCEPT), (2, 3, RELEASE), version=version)
    assert acquired(answer) == [(2, 3, 2), (4, 5, 1)]
    assert answer.responses[0].partitions[0].acknowledge_error_code == 0
    answer = await acknowledge(setup, 2, topic_id, 2, 5)
    assert answer.responses[0].partitions[0].error_code == 0
    again = await acknowledge(setup, 3, topic_id, 6, 6)
    assert again.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_session_has_epochs(setup: Setup) -> None:
    topic_id = await begin(setup)
    missing = await fetch(setup, 1, topic_id)
    assert missing.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    early = await fetch(setup, 0, topic_id, (0, 1, ACCEPT))
    assert early.error_code == ErrorCode.INVALID_REQUEST
    assert acquired(await fetch(setup, 0, topic_id, max_records=3)) == [(0, 2, 1)]
    wrong = await fetch(setup, 2, topic_id)
    assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    wrong = await acknowledge(setup, 7, topic_id, 0, 1)
    assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    closed = await acknowledge(setup, -1, topic_id, 0, 0)
    assert not closed.responses[0].partitions[0].error_code
    assert (await fetch(setup, -1, topic_id)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    # Records that the session held but did not acknowledge are available again.
    assert acquired(await fetch(setup, 0, topic_id, max_records=3))[0] == (1, 2, 2)
    assert not (await fetch(setup, -1, topic_id)).error_code


async def test_a_fetch_waits_for_records_and_for_what_others_give_back(setup: Setup) -> None:
    topic_id = await begin(setup)
    second = await RawClient.connect(setup.running.server.port)
    assert acquired(await fetch(setup, 0, topic_id)) == [(0, 5, 1)]
    waiting = asyncio.create_task(fetch(setup, 1, topic_id, client=second, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await produce(setup)
    assert acquired(await waiting) == [(6, 8, 1)]
    waiting = asyncio.create_task(fetch(setup, 2, topic_id, client=second, max_wait_ms=60_000))
    await until(lambda: setup.running.context.shares.wakes_of(GROUP) != 0)
    answer = await acknowledge(setup, 3, topic_id, 0, 2, RELEASE)
    assert not answer.responses[0].partitions[0].error_code
    assert acquired(await waiting) == [(0, 2, 2)]
    await second.close()


async def test_locks_are_renewed_without_fetching(setup: Setup) -> None:
    topic_id = await begin(setup)
    await fetch(setup, 0, topic_id, max_records=3)
    answer = await fetch(setup, 1, topic_id, (0, 2, RENEW), max_records=0)
    ((partition,),) = [topic.partitions for topic in answer.responses]
    assert (partition.acknowledge_error_code, partition.acquired_records) == (0, ())
    silent = await fetch(setup, 2, topic_id, (0, 2, RENEW), is_renew_ack=False)
    assert silent.error_code == ErrorCode.INVALID_REQUEST


async def test_what_does_not_exist_is_refused(setup: Setup) -> None:
    topic_id = await begin(setup)
    answer = await fetch(setup, 0, bytes(15) + b"x", max_wait_ms=60_000)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    topics = [records.FetchTopic(topic_id, [records.FetchPartition(9)])]
    answer = await fetch(setup, 0, topic_id, topics=topics, max_wait_ms=60_000)
    code = answer.responses[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_few_commands_acknowledge_many_records(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand records in batches of a hundred: each request acknowledges and acquires in one command."""
    topic_id = await begin(setup, "latest")
    assert not (await fetch(setup, 0, topic_id)).responses
    for _ in range(10):
        await produce(setup, 100)
    sent = commands_of(setup, monkeypatch)
    held: list[tuple[int, int, int]] = []
    for epoch in range(1, 11):
        taken = acquired(await fetch(setup, epoch, topic_id, *held))
        held = [(first, last, ACCEPT) for first, last, _ in taken]
    for first, last, _ in held:
        await acknowledge(setup, 11, topic_id, first, last)
    monkeypatch.undo()
    assert sum(each.HasField("share_records") for each in sent) <= 11
    (offset,) = await offsets(setup, 1)
    assert (offset.start_offset, offset.lag) == (1006, 0)


async def test_dead_letters_have_kafkas_headers_and_are_written_once(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = await begin(setup)
    await setup.create("dlq.t", 2, errors_deadletterqueue_group_enable="true")
    await configure(setup, "errors.deadletterqueue.topic.name", "dlq.t")
    assert acquired(await fetch(setup, 0, topic_id)) == [(0, 5, 1)]
    await acknowledge(setup, 1, topic_id, 0, 1, REJECT)
    assert setup.running.context.shares.dead_letters.is_set()
    with ThreadPoolExecutor(1) as executor:
        burial = Burial(setup.running.context, executor)
        with monkeypatch.context() as patch:
            sent = commands_of(setup, patch)
            assert await burial.run_once()
        assert not await burial.run_once()
        (late,) = [each.bury_records for each in sent if each.HasField("bury_records")]
        late.commit.segment.sequence += 1_000  # as another agent would write them
        refused = await setup.running.control.call(Command(bury_records=late))
        assert refused.segment_committed.error_code == ErrorCode.PLAN_STALE
        await configure(setup, "errors.deadletterqueue.copy.record.enable", "true")
        await acknowledge(setup, 2, topic_id, 2, 2, REJECT)
        assert await burial.run_once()
    plain, other, copied = await letters(setup, "dlq.t")
    assert [plain.value, other.value, copied.value] == [None, None, b"v"]
    assert dict(copied.headers) == {
        b"__dlq.errors.topic": b"t",
        b"__dlq.errors.partition": b"0",
        b"__dlq.errors.offset": b"2",
        b"__dlq.errors.group": GROUP.encode(),
        b"__dlq.errors.delivery.count": b"1",
        b"__dlq.errors.message": b"Offset rejected by client.",
    }
    (offset,) = await offsets(setup, 1)
    assert offset.start_offset == 3


async def test_a_queue_is_created_and_takes_what_it_can(setup: Setup) -> None:
    """A value too large for the queue is left out, and a letter that is too large even then is not written."""
    topic_id = await begin(setup)
    await produce(setup, 1, b"x" * 5000)
    name = "errors.deadletterqueue.auto.create.topics.enable"
    rule = SecurityChanges(configs={name: "true"})
    await setup.running.control.call(Command(alter_security=AlterSecurity(changes=rule)))
    await configure(setup, "errors.deadletterqueue.topic.name", "dlq.t")
    await configure(setup, "errors.deadletterqueue.copy.record.enable", "true")
    await fetch(setup, 0, topic_id)
    with ThreadPoolExecutor(1) as executor:
        burial = Burial(setup.running.context, executor)
        await acknowledge(setup, 1, topic_id, 0, 0, REJECT)
        assert await burial.run_once()
        assert await burial.run_once()
        assert setup.configs("dlq.t")["errors.deadletterqueue.group.enable"] == "true"
        for size in ("1000", "10"):
            change = ConfigChange(name="max.message.bytes", operation=SET, value=size)
            altered = AlterTopicConfigs(name="dlq.t", changes=[change])
            await setup.running.control.call(Command(alter_topic_configs=altered))
            last = 1 if size == "10" else 6
            await acknowledge(setup, 2 if last == 6 else 3, topic_id, last, last, REJECT)
            assert await burial.run_once()
    first, second = await letters(setup, "dlq.t")
    assert (first.value, second.value) == (b"v", None)
    assert dict(second.headers)[b"__dlq.errors.offset"] == b"6"


async def test_a_group_begins_at_a_time(setup: Setup) -> None:
    topic_id = await begin(setup, "by_duration:PT1H")
    assert acquired(await fetch(setup, 0, topic_id))[0][0] == 0


async def test_groups_are_described_and_offsets_altered(setup: Setup) -> None:
    topic_id = await begin(setup)
    await fetch(setup, 0, topic_id, max_records=3)
    await acknowledge(setup, 1, topic_id, 0, 1)
    described = await setup.client.call(
        1, groups.ShareGroupDescribeRequest((GROUP, "other"), include_authorized_operations=True)
    )
    group, other = described.groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert group.members[0].assignment.topic_partitions[0].topic_name == "t"
    assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for version in (0, 1):
        (offset,) = await offsets(setup, version)
        assert (offset.start_offset, offset.lag) == (2, 4 if version else -1)
    assert (await alter(setup, 1)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert not (await beat(setup, -1)).error_code
    altered = await alter(setup, 1)
    assert [part.error_code for each in altered.responses for part in each.partitions] == [0, 3]
    (offset,) = await offsets(setup, 1)
    assert (offset.start_offset, offset.lag) == (1, 5)
    named = groups.DescribeShareGroupOffsetsRequestTopic
    (offset, gone) = await offsets(setup, 1, named("t", (0,)), named("gone", (0,)))
    assert (offset.start_offset, gone.start_offset) == (1, -1)
    deleted = await setup.client.call(
        0,
        groups.DeleteShareGroupOffsetsRequest(
            GROUP, [groups.DeleteShareGroupOffsetsRequestTopic(name) for name in ("t", "gone")]
        ),
    )
    assert [each.error_code for each in deleted.responses] == [0, 3]
    assert await offsets(setup, 1) == []


async def offsets(setup: Setup, version: int, *topics: Any) -> list[Any]:
    answer = await setup.client.call(
        version,
        groups.DescribeShareGroupOffsetsRequest(
            [groups.DescribeShareGroupOffsetsRequestGroup(GROUP, topics or None)]
        ),
    )
    return [part for topic in answer.groups[0].topics for part in topic.partitions]


async def alter(setup: Setup, offset: int) -> Any:
    partition = groups.AlterShareGroupOffsetsRequestPartition(0, offset)
    topics = [
        groups.AlterShareGroupOffsetsRequestTopic(name, [partition]) for name in ("t", "gone")
    ]
    return await setup.client.call(0, groups.AlterShareGroupOffsetsRequest(GROUP, topics))
