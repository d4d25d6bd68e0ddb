"""Fetching the internal topics: batches with holes, sessions, waiting, and Kafka's bytes (ADR 43)."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from lacuna.agent.apis import k02_list_offsets as list_offsets
from lacuna.agent.fetch.internal import read_all, record_of
from lacuna.agent.fetch.message_sets import fetch_message_sets
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.sessions import Interest, Watch
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import (
    CONSUMER_OFFSETS,
    INTERNAL_BY_NAME,
    TRANSACTION_STATE,
    Kind,
    partition_of,
)
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import InternalKey
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, DeleteGroups, OffsetCommit
from lacuna.controlplane.v1.internal_pb2 import InternalEntry
from lacuna.wire import records as forms
from lacuna.wire.layout import Message
from tests.agent.apis.offsets import call_of, end_offset
from tests.agent.apis.test_list_offsets import asked_of
from tests.agent.fetch.log import (
    Log,
    batches_of,
    fetch_request,
    make_batch,
    next_offset_of,
    open_log,
    records_of,
)

WHERE = (CONSUMER_OFFSETS, partition_of("g"))
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


async def commit(log: Log, offset: int, partition: int = 0) -> None:
    named = TopicPartition(topic_id=log.topic_id, partition=partition)
    committed = CommittedOffset(partition=named, offset=offset, leader_epoch=0)
    command = OffsetCommit(group_id="g", generation_id=-1, offsets=[committed])
    reply = await log.control.call(Command(offset_commit=command))
    assert reply.offsets_committed.error_codes == [0]


async def ask(log: Log, offset: int, **options: int) -> Any:
    request = fetch_request({WHERE: offset}, forgotten=(), **options)
    return (await log.ask(request)).responses[0].partitions[0]


async def test_a_batch_has_holes_where_records_were_superseded() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=2)
        for partition, offset in ((0, 1), (1, 2), (0, 3), (0, 4)):
            await commit(log, offset, partition)
        answer = await ask(log, 0, max_wait_ms=5000)
        while next_offset_of(answer) < 4:  # the view may know of only some commits
            answer = await ask(log, 0)
        assert [offset for offset, _ in records_of(answer)] == [1, 3]
        assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
            4,
            4,
            0,
        )
        assert batches_of(answer)[0].header.partition_leader_epoch == 0
        assert (await ask(log, 4)).records == ()
        assert (await ask(log, 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_at_the_end_waits_for_the_next_commit() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        waiting = asyncio.create_task(ask(log, 0, max_wait_ms=600_000))
        await asyncio.sleep(0)
        await commit(log, 7)
        answer = await asyncio.wait_for(waiting, 60)
        assert [offset for offset, _ in records_of(answer)] == [0]


async def test_a_session_hears_of_new_records_together_with_those_of_other_topics() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"a"))
        request = fetch_request({("t", 0): 0, WHERE: 0}, session_epoch=0, forgotten=())
        full = await log.ask(request)
        assert [topic.topic for topic in full.responses] == ["t", CONSUMER_OFFSETS]
        on: Any = {"session_id": full.session_id, "max_wait_ms": 30_000}
        await commit(log, 7)
        follow = await log.ask(fetch_request({("t", 0): 1}, session_epoch=1, **on))
        (topic,) = follow.responses
        assert topic.topic == CONSUMER_OFFSETS
        assert [offset for offset, _ in records_of(topic.partitions[0])] == [0]
        await log.produce(make_batch(b"b"))
        follow = await log.ask(fetch_request({WHERE: 1}, session_epoch=2, **on))
        assert [topic.topic for topic in follow.responses] == ["t"]


async def test_a_deleted_offset_is_a_record_without_a_value() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await commit(log, 7)
        command = Command(delete_groups=DeleteGroups(group_ids=["g"]))
        await log.control.call(command)
        await log.fetch_service.confirm([log.control.partition(*key())])
        assert records_of(await ask(log, 0)) == [(1, None)]


def key() -> tuple[bytes, int]:
    return INTERNAL_BY_NAME[WHERE[0]].topic_id, WHERE[1]


async def test_old_clients_get_message_sets() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await commit(log, 7)
        await log.fetch_service.confirm([log.control.partition(*key())])
        request = fetch_request({WHERE: 0}, forgotten=())
        response = await fetch_message_sets(log.fetch_service, request, 3, 0.0)
        (message_set,) = response.responses[0].partitions[0].records or ()
        assert bytes(message_set)[:8] == bytes(8)  # its offset
        assert b"\0\1\0\1g\0\1t\0\0\0\0" in bytes(message_set)


async def listed(log: Log, timestamp: int) -> tuple[int, int]:
    request = asked_of(CONSUMER_OFFSETS, timestamp, partition=WHERE[1])
    response = await list_offsets.handle(call_of(log, 10), request)
    (answer,) = response.topics[0].partitions
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


async def test_offsets_are_listed_by_time() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=2)
        assert await listed(log, LATEST) == (0, -1)
        assert await listed(log, MAX_TIMESTAMP) == (-1, -1)
        await commit(log, 1)
        await commit(log, 2)
        await commit(log, 3, partition=1)
        assert await listed(log, EARLIEST) == (0, -1)
        assert await listed(log, LATEST) == (3, -1)
        offset, latest = await listed(log, MAX_TIMESTAMP)
        assert offset in (1, 2)
        assert await listed(log, latest) == (offset, latest)
        assert await listed(log, latest + 1) == (-1, -1)
        log.topic = CONSUMER_OFFSETS
        assert await end_offset(log, 0, partition=WHERE[1]) == (0, 0, 3)


async def test_without_a_control_plane_the_end_is_not_told() -> None:
    """An empty answer would mean that there are no records."""

    class Away:
        async def call(self, _command: Command) -> None:
            raise ControlPlaneUnavailable("away")

    plan = FetchPlan(0, 1, None, 0, 1, 1, key(), None, None)  # type: ignore[arg-type]
    interest = Interest(Watch(), *WHERE, 0)  # type: ignore[arg-type]
    answers = await read_all(Away(), {interest: plan}, 1)  # type: ignore[arg-type]
    assert answers[interest].error_code == ErrorCode.KAFKA_STORAGE_ERROR


#: Entries of the control plane, and the values that Kafka writes for them.
ENTRIES = json.loads(Path(__file__).with_suffix(".json").read_text())


@pytest.mark.parametrize("row", ENTRIES)
def test_a_record_is_written_as_kafka_writes_it(row: dict[str, Any]) -> None:
    """An offset that expires is written in the last version that contains the expiry time."""
    named = InternalKey(kind=Kind[row["kind"]], name="g", member_id="m", topic="t", partition=1)
    entry = ParseDict(row["entry"], InternalEntry(at_ms=1234, key=named))
    written_key, value = record_of(entry)
    assert value is not None
    assert struct.unpack_from(">h", written_key) == (named.kind,)
    assert struct.unpack_from(">h", value) == (row["version"],)
    messages = [each for each in vars(forms).values() if isinstance(each, Message)]
    of_key, of_value = sorted(
        (each for each in messages if each.api_key == named.kind),
        key=lambda each: each.body.make.__name__.endswith("Value"),
    )
    assert repr(of_value.read(memoryview(value)[2:], row["version"])) == row["value"]
    names = {"group", "group_id", "transactional_id"}
    read = of_key.read(memoryview(written_key)[2:], 0)._asdict()
    assert {read.pop(name) for name in names & read.keys()} == {"g"}
    assert read in ({}, {"member_id": "m"}, {"topic": "t", "partition": 1})
    tombstone = InternalEntry(at_ms=1234, key=named)
    assert record_of(tombstone) == (written_key, None)


def test_a_record_of_no_known_kind_is_not_written() -> None:
    with pytest.raises(ValueError, match="no records have the kind 4"):
        record_of(InternalEntry(key=InternalKey(kind=4, name="g")))


async def test_a_transaction_is_read_by_its_transactional_id() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await writer.send(b"a")
        await writer.end(committed=False)
        where = (TRANSACTION_STATE, partition_of("x"))
        topic_id = INTERNAL_BY_NAME[TRANSACTION_STATE].topic_id
        await log.fetch_service.confirm([log.control.partition(topic_id, where[1])])
        response = await log.ask(fetch_request({where: 0}, forgotten=()))
        ((offset, value),) = records_of(response.responses[0].partitions[0])
        assert offset == 2
        assert value is not None
        read = forms.TRANSACTION_LOG_VALUE.read(memoryview(value)[2:], 1)
        assert read.transaction_status == 5
