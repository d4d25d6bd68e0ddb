"""ListOffsets and OffsetForLeaderEpoch over a real control plane (S7, S21)."""

from importlib import import_module
from typing import Any

import pytest

from agent.apis import list_offsets, offset_for_leader_epoch
from agent.apis.registry import Peer
from controlplane.v1.control_pb2 import Command, Reply
from tests.agent.fetch.log import TIME, Log, make_batch, open_log

PEER = Peer(host="h", port=1)


class Context:
    """What these handlers use of an agent's context."""

    def __init__(self, log: Log) -> None:
        self.control = log.control
        self.fetch = log.fetch_service


async def list_offset(
    log: Log, timestamp: int, *, committed: bool = True, version: int = 10, **values: int
) -> tuple[int, int, int]:
    """(error code, offset, timestamp) of partition 0."""
    module: Any = import_module(f"kio.schema.list_offsets.v{version}.request")
    fields = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1} | values
    known = module.ListOffsetsPartition.__dataclass_fields__
    asked = module.ListOffsetsPartition(**{k: v for k, v in fields.items() if k in known})
    top: dict[str, Any] = {"replica_id": -1, "isolation_level": int(committed)}
    if version >= 10:
        from datetime import timedelta

        top["timeout"] = timedelta(0)
    names = module.ListOffsetsRequest.__dataclass_fields__
    request = module.ListOffsetsRequest(
        topics=(module.ListOffsetsTopic(name=log.topic, partitions=(asked,)),),
        **{key: value for key, value in top.items() if key in names},
    )
    response = await list_offsets.handle(Context(log), request, PEER)  # type: ignore[arg-type]
    (answer,) = response.topics[0].partitions
    return int(answer.error_code), int(answer.offset), int(answer.timestamp)


async def fill(log: Log) -> None:
    """Offsets 0-1 plain, 2 aborted with the largest timestamps, 3 plain, 4 open."""
    await log.create_topic("t")
    aborted, opened = await log.writer("a"), await log.writer("o")
    await log.produce(make_batch(b"0", b"1", timestamp=TIME))
    batch = make_batch(b"2", producer=aborted.producer, transactional=True, timestamp=TIME + 5000)
    assert (await log.produce(batch, transactional_id="a")).error_code == 0
    await log.produce(make_batch(b"3", timestamp=TIME + 100))
    await aborted.end(committed=False)
    await opened.send(b"4")


@pytest.mark.parametrize("version", range(1, 12))
async def test_s21_earliest_and_latest_by_isolation_level(version: int) -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, -2, version=version) == (0, 0, -1)
        stable = 4 if version >= 2 else 5
        assert await list_offset(log, -1, version=version) == (0, stable, -1)
        assert await list_offset(log, -1, version=version, committed=False) == (0, 5, -1)
        await log.delete_records(2)
        assert await list_offset(log, -2, version=version) == (0, 2, -1)


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


async def test_special_timestamps_without_tiered_storage_and_below_their_versions() -> None:
    async with open_log() as log:
        await fill(log)
        assert await list_offset(log, -4) == (0, 0, -1)
        assert await list_offset(log, -5) == (0, -1, -1)
        assert await list_offset(log, -6, version=11) == (0, -1, -1)
        for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)):
            assert (await list_offset(log, timestamp, version=version))[0] == 35


async def test_list_offsets_of_what_is_not_there() -> None:
    async with open_log() as log:
        await fill(log)
        assert (await list_offset(log, -1, partition_index=7))[0] == 3
        assert (await list_offset(log, -1, current_leader_epoch=2))[0] == 75
        assert (await list_offset(log, -1, current_leader_epoch=0))[0] == 0


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


async def test_a_lost_object_is_a_storage_error() -> None:
    async with open_log() as log:
        await fill(log)
        log.store.delete(log.store.put_order)
        assert await list_offset(log, TIME) == (56, -1, -1)


async def end_offset(
    log: Log, leader_epoch: int, *, version: int = 4, current: int = -1, partition: int = 0
) -> tuple[int, int, int]:
    """(error code, leader epoch, end offset)."""
    module: Any = import_module(f"kio.schema.offset_for_leader_epoch.v{version}.request")
    asked = module.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch
    )
    request = module.OffsetForLeaderEpochRequest(
        topics=(module.OffsetForLeaderTopic(topic=log.topic, partitions=(asked,)),)
    )
    response = await offset_for_leader_epoch.handle(Context(log), request, PEER)  # type: ignore[arg-type]
    (answer,) = response.topics[0].partitions
    return int(answer.error_code), int(answer.leader_epoch), int(answer.end_offset)


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_s21_the_one_leader_epoch_ends_at_the_high_watermark(version: int) -> None:
    async with open_log() as log:
        await fill(log)
        assert await end_offset(log, 0, version=version) == (0, 0, 5)
        assert await end_offset(log, 3, version=version) == (0, -1, -1)
        assert await end_offset(log, -1, version=version) == (0, -1, -1)
        assert await end_offset(log, 0, version=version, current=1) == (75, -1, -1)
        assert await end_offset(log, 0, version=version, partition=9) == (3, -1, -1)
