"""ListOffsets and OffsetForLeaderEpoch over the wire."""

import threading
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from lacuna.agent.apis import k02_list_offsets as list_offsets
from lacuna.agent.fetch.lookup import first_at_or_after, latest_by_time
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.registry import response_header_version
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.wire.layout import Message
from lacuna.wire.messages import fetch as wire
from tests.agent.apis.offsets import call_of, end_offset, fill
from tests.agent.fetch.log import TIME, Log, TestStore, make_batch, open_log
from tests.agent.harness import (
    TOPIC_ID,
    ScriptedControl,
    client_of,
    encode_request,
    make_context,
    snapshot,
)

M = TypeVar("M")


def as_of(message: Message[M], value: M, version: int) -> M:
    """Return a message as it is after encoding and decoding at that version."""
    return message.read(memoryview(message.write(value, version)), version)


def asked_of(
    topic: str, timestamp: int, *, committed: bool = True, partition: int = 0, current: int = -1
) -> wire.ListOffsetsRequest:
    """Return a request for one partition."""
    asked = wire.ListOffsetsPartition(partition, current, timestamp)
    topics = [wire.ListOffsetsTopic(topic, [asked])]
    return wire.ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=topics)


async def list_offset(
    log: Log, timestamp: int, *, version: int = 10, **asked: Any
) -> tuple[int, int, int]:
    """Return (error code, offset, timestamp) for one partition."""
    request = as_of(wire.LIST_OFFSETS_REQUEST, asked_of(log.topic, timestamp, **asked), version)
    response = await list_offsets.handle(call_of(log, version), request)
    (answer,) = as_of(wire.LIST_OFFSETS_RESPONSE, response, version).topics[0].partitions
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 11))
async def test_s21_earliest_and_latest_by_isolation_level(version: int) -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, -2, version=version) == (0, 0, -1)
        stable = 4 if version >= 2 else 5
        assert await list_offset(log, -1, version=version) == (0, stable, -1)
        assert await list_offset(log, -1, version=version, committed=False) == (0, 5, -1)
        await log.delete_records(2)
        assert await list_offset(log, -2, version=version) == (0, 2, -1)


async def test_the_end_at_a_past_time() -> None:
    """The time is sent as a negative timestamp far below those that Kafka may reserve in the future."""
    async with open_log() as log:
        await fill(log)
        now_ms = (await list_offset(log, -(10**12)))[2] + 3_600_000
        for version in range(1, 11):
            error_code, offset, timestamp = await list_offset(log, -now_ms, version=version)
            assert error_code == 0
            assert 0 <= offset <= 4
            error_code, offset, known_from = await list_offset(log, -(10**12), version=version)
            assert (error_code, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert 10**12 < known_from <= timestamp < now_ms
        for asked, version in ((-(10**12) + 1, 10), (-6, 10), (-now_ms, 0)):
            error_code, _, _ = await list_offset(log, asked, version=version)
            assert error_code == ErrorCode.UNSUPPORTED_VERSION
        error_code, _, _ = await list_offset(log, -now_ms, partition=7)
        assert error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_s21_by_time_the_first_record_that_the_isolation_level_shows() -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, TIME) == (0, 0, TIME)
        assert await list_offset(log, TIME + 1) == (0, 1, TIME + 1)
        assert await list_offset(log, TIME + 2) == (0, 3, TIME + 100)
        assert await list_offset(log, TIME + 2, committed=False) == (0, 2, TIME + 5000)
        assert await list_offset(log, TIME + 101) == (0, -1, -1)
        await log.delete_records(1)
        assert await list_offset(log, TIME) == (0, 1, TIME + 1)


class CountingColumn(list[int]):
    """A column that counts how many of its values are read."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.looks += len(found) if isinstance(index, slice) else 1
        return found


@pytest.mark.parametrize("timestamp", [0, TIME, -3])
async def test_s21_by_time_aborted_runs_are_jumped_and_not_looked_at(timestamp: int) -> None:
    """100,000 aborted extents before the answer add only a few bisections."""
    looks = {}
    async with open_log() as log:
        await log.create_topic("orders")
        await log.produce(make_batch(b"0", timestamp=TIME))
        assert await list_offset(log, TIME) == (0, 0, TIME)
        real = log.control.partition(log.topic_id, 0)
        await real.ready()
        for aborted in (0, 100_000):
            table, dead = ExtentTable(), DeadRanges()
            for name in COLUMNS:
                values = list(getattr(real.extents, name)) * (aborted + 1)
                if name in {"base_offsets", "next_offsets"}:
                    values = [values[0] + index for index in range(aborted + 1)]
                setattr(table, name, CountingColumn(values))
            if aborted:
                dead.add(0, aborted)
            view: Any = SimpleNamespace(
                topic_id=log.topic_id,
                partition=0,
                extents=table,
                dead=dead,
                log_start_offset=0,
                last_stable_offset=aborted + 1,
                high_watermark=aborted + 1,
            )
            cache = log.fetch_service.cache
            if timestamp == -3:
                found = await latest_by_time(cache, view, True)
            else:
                found = await first_at_or_after(cache, view, timestamp, True)
            assert found == (aborted, TIME)
            columns = (getattr(table, name) for name in COLUMNS)
            looks[aborted] = sum(column.looks for column in columns)
    assert looks[100_000] - looks[0] < 250


@pytest.mark.parametrize("timestamp", [TIME, -3])
async def test_s21_lookups_by_time_read_side_by_side_within_the_bound(timestamp: int) -> None:
    """Four reads run at a time; with fewer, the barrier would break."""
    store = TestStore()
    store.reads_at_once = 4
    async with open_log(store=store, fetch=FetchSettings(max_reads=4)) as log:
        await log.create_topic("t", partitions=12)
        for partition in range(12):
            await log.produce(make_batch(b"a"), partition=partition)
        barrier, get = threading.Barrier(4, timeout=60), store.get

        def held_get(key: str, position: int, size: int) -> bytearray:
            barrier.wait()
            return get(key, position, size)

        store.get = held_get  # type: ignore[method-assign]
        asked = [wire.ListOffsetsPartition(partition, -1, timestamp) for partition in range(12)]
        request = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic("t", asked)])
        answer = await list_offsets.handle(call_of(log, 10), request)
        found = [(each.partition_index, each.offset) for each in answer.topics[0].partitions]
    assert found == [(partition, 0) for partition in range(12)]


async def test_the_latest_offsets_need_no_view() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        for timestamp in (-1, -2, -4, -5):
            assert (await list_offset(log, timestamp, partition=2))[0] == 0
        assert log.control._subscriptions.keys() == []


async def test_a_partition_that_is_named_twice_is_answered_once_with_invalid_request() -> None:
    """As in Kafka, for any number of repetitions and any timestamps; v0 may request several offsets of a partition."""
    async with open_log() as log:
        await fill(log)
        topics = [
            wire.ListOffsetsTopic(log.topic, [wire.ListOffsetsPartition(0, -1, -1)]),
            wire.ListOffsetsTopic("x", [wire.ListOffsetsPartition(0, -1, -1)]),
            wire.ListOffsetsTopic(log.topic, [wire.ListOffsetsPartition(0, -1, -2)]),
        ]
        request = wire.ListOffsetsRequest(topics=topics)
        answer = await list_offsets.handle(call_of(log, 7), request)
        found = [
            (topic.name, [each.error_code for each in topic.partitions]) for topic in answer.topics
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == [(log.topic, [ErrorCode.INVALID_REQUEST]), ("x", [unknown])]


async def test_s21_the_largest_timestamp_is_that_of_a_live_record() -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, -3) == (0, 3, TIME + 100)
        assert await list_offset(log, -3, committed=False) == (0, 2, TIME + 5000)
        await log.create_topic("empty")
        assert await list_offset(log, -3) == (0, -1, -1)


async def test_s21_the_largest_timestamp_is_that_of_a_record_that_remains() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"0", b"1", b"2", timestamp=TIME + 9, step=-3))
        await log.produce(make_batch(b"3", timestamp=TIME + 2))
        assert await list_offset(log, -3) == (0, 0, TIME + 9)
        await log.delete_records(1)
        assert await list_offset(log, -3) == (0, 1, TIME + 6)
        await log.produce(make_batch(b"4", timestamp=TIME + 7))
        assert await list_offset(log, -3) == (0, 4, TIME + 7)
        await log.delete_records(3)
        assert await list_offset(log, -3) == (0, 4, TIME + 7)
        await log.delete_records(5)
        assert await list_offset(log, -3) == (0, -1, -1)


@pytest.mark.parametrize("start", [3, 5, 9, 10])
async def test_s21_what_is_undecided_is_not_named_where_the_log_begins_within_it(
    start: int,
) -> None:
    """DeleteRecords may reach into an open transaction; the last stable offset is then the log start (S3)."""
    async with open_log() as log:
        await log.create_topic("t")
        opened = await log.writer("o")
        await opened.send(*(b"%d" % number for number in range(10)))
        await log.delete_records(start)
        for timestamp in (0, TIME, TIME + 9, -3):
            assert await list_offset(log, timestamp) == (0, -1, -1), timestamp
        for timestamp, committed in ((-2, True), (-4, True), (-1, True), (-2, False)):
            found = await list_offset(log, timestamp, committed=committed)
            assert found == (0, start, -1), timestamp
        assert await list_offset(log, -1, committed=False) == (0, 10, -1)
        first = (0, start, TIME + start) if start < 10 else (0, -1, -1)
        last = (0, 9, TIME + 9) if start < 10 else (0, -1, -1)
        assert await list_offset(log, TIME, committed=False) == first
        assert await list_offset(log, -3, committed=False) == last
        assert await end_offset(log, 0) == (0, 0, 10)
        await opened.end(committed=True)
        assert await list_offset(log, TIME) == first
        assert await list_offset(log, -3) == last


async def test_special_timestamps_without_tiered_storage_and_below_their_versions() -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, -4) == (0, 0, -1)
        assert await list_offset(log, -5) == (0, -1, -1)
        for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10)):
            assert (await list_offset(log, timestamp, version=version))[0] == 35


async def test_list_offsets_of_what_is_not_there() -> None:
    async with open_log() as log:
        await fill(log)
        assert (await list_offset(log, -1, partition=7))[0] == 3
        assert (await list_offset(log, -1, current=2))[0] == 75
        assert (await list_offset(log, -1, current=0))[0] == 0


async def test_s7_bounds_come_from_a_confirming_read_and_not_from_the_view() -> None:
    async with open_log() as log:
        await fill(log)
        view = log.control.partition(log.topic_id, 0)
        await view.ready()
        view.high_watermark = view.last_stable_offset = 1
        calls, call = [], log.control.call

        async def counting(command: Command) -> Reply:
            calls.append(command.WhichOneof("verb"))
            return await call(command)

        log.control.call = counting  # type: ignore[method-assign]
        assert (await list_offset(log, -1))[1] == 4
        assert (await end_offset(log, 0))[2] == 5
        assert calls == ["read_partitions", "read_partitions"]


async def test_a_lost_object_is_an_error_that_all_clients_try_again() -> None:
    async with open_log() as log:
        await fill(log)
        log.store.delete(log.store.put_order)
        assert await list_offset(log, TIME) == (5, -1, -1)


@pytest.mark.parametrize("version", range(1, 11))
async def test_without_a_control_plane_the_answer_is_an_error_that_all_clients_try_again(
    version: int,
) -> None:
    control = ScriptedControl()
    control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=1)))
    control.otherwise = ControlPlaneUnavailable("away")
    async with client_of(make_context(control)) as client:
        body = wire.LIST_OFFSETS_REQUEST.write(asked_of("t", -1), version)
        client.send(encode_request(2, version, body))
        answered = memoryview(await client.frame())[4 + response_header_version(2, version) :]
        answer = wire.LIST_OFFSETS_RESPONSE.read(answered, version)
        assert [each.error_code for each in answer.topics[0].partitions] == [5]


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_s21_the_one_leader_epoch_ends_at_the_high_watermark(version: int) -> None:
    async with open_log() as log:
        await fill(log)
        assert await end_offset(log, 0, version=version) == (0, 0, 5)
        assert await end_offset(log, 3, version=version) == (0, -1, -1)
        assert await end_offset(log, -1, version=version) == (0, -1, -1)
        assert await end_offset(log, 0, version=version, current=1) == (75, -1, -1)
        assert await end_offset(log, 0, version=version, partition=9) == (3, -1, -1)
