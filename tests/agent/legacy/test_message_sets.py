"""Produce v0-v2 and Fetch v0-v3 on a log with transactions and holes (S24). kafka-python encodes and decodes
the sets.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from kafka.protocol.old.fetch import (
    FetchRequest_v0,
    FetchRequest_v1,
    FetchRequest_v2,
    FetchRequest_v3,
)
from kafka.protocol.old.list_offsets import ListOffsetsRequest_v0
from kafka.protocol.old.produce import (
    ProduceRequest_v0,
    ProduceRequest_v1,
    ProduceRequest_v2,
)
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from lacuna.agent.apis.k02_list_offsets import MAX_OFFSETS
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import TIME, Log, make_batch, open_log, records_of
from tests.agent.harness import RawClient, serving
from tests.agent.legacy.asking import ask, send

PRODUCE = [ProduceRequest_v0, ProduceRequest_v1, ProduceRequest_v2]
FETCH = [FetchRequest_v0, FetchRequest_v1, FetchRequest_v2, FetchRequest_v3]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
OUT_OF_RANGE, CORRUPT, UNKNOWN, TOO_LARGE = 1, 2, 3, 10
INVALID_ACKS, INVALID_TIMESTAMP, INVALID_RECORD = 21, 32, 87


class Served(NamedTuple):
    """A log, and a client of the agent that serves it."""

    log: Log
    client: RawClient
    port: int

    async def compact(self) -> None:
        """Merge until the aborted records are gone and everyone sees holes (S14)."""
        log = self.log
        with ThreadPoolExecutor(1) as executor:
            settings = MergeSettings(min_extents=2, min_age_ms=0)
            merger = Merger(log.control, log.store, log.lease, executor, settings)
            while await merger.run_once():
                pass


@asynccontextmanager
async def served(
    partitions: int = 1, fetch: FetchSettings | None = None, failed: int = 0, **configs: str
) -> AsyncIterator[Served]:
    """A topic "t" and an agent on which exactly this many requests must fail."""
    async with open_log(fetch=fetch) as log:
        await log.create_topic("t", partitions, **configs)
        context = log.context()
        async with serving(context) as server, RawClient.connected(server.port) as client:
            yield Served(log, client, server.port)
        assert context.metrics.requests_failed == failed


def message_set(*values: bytes | None, magic: int = 1, codec: int = 0, time: int = TIME) -> bytes:
    """Return a message set as a producer sends it."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=time + offset if magic else None, key=b"k", value=value)
    return bytes(builder.build())


def records_in(data: bytes, from_offset: int = 0) -> list[tuple[int, int | None, bytes | None]]:
    """Return (offset, timestamp, value) of the complete messages that a client keeps."""
    records = MemoryRecords(data)
    found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.value) for record in batch]
    return [record for record in found if record[0] >= from_offset]


def values_in(data: bytes, from_offset: int = 0) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, value in records_in(data, from_offset)]


def asked(
    version: int,
    offsets: dict[int, int],
    *,
    wait: int = 0,
    size: int = 1 << 20,
    all_sizes: int = 1 << 30,
) -> Any:
    """Return a Fetch request for "t"."""
    partitions = [(partition, offset, size) for partition, offset in offsets.items()]
    more = (all_sizes,) if version == 3 else ()
    return FETCH[version](-1, wait, 1, *more, [("t", partitions)])


async def fetch(client: RawClient, version: int, offset: int, **options: int) -> Any:
    """Return (error code, high watermark, bytes) of partition 0."""
    answer = await ask(client, asked(version, {0: offset}, **options))
    ((name, ((partition, *rest),)),) = answer.responses
    assert (name, partition) == ("t", 0)
    return rest


async def produce(client: RawClient, version: int, *sets: bytes, acks: int = 1) -> list[Any]:
    """Return the answers for partitions 0, 1, ..."""
    request = PRODUCE[version](acks, 1000, [("t", list(enumerate(sets)))])
    ((_, answers),) = (await ask(client, request)).topics
    return list(answers)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(3))
async def test_what_was_produced_is_fetched(version: int, codec: str) -> None:
    """Every codec is tested. v0 and v1 have no timestamps, and v2 keeps them; newer clients read the same records."""
    magic = 1 if version == 2 else 0
    async with served() as (log, client, _):
        data = message_set(b"a", None, b"c", magic=magic, codec=CODECS[codec])
        for base in (0, 3):
            ((_, error, offset, *append_time),) = await produce(client, version, data)
            assert (error, offset) == (0, base)
            assert append_time == ([-1] if version == 2 else [])
        values = [(0, b"a"), (1, None), (2, b"c"), (3, b"a"), (4, None), (5, b"c")]
        assert records_of(await log.fetch(0)) == values
        for fetched in range(4):
            error, watermark, sets = await fetch(client, fetched, 0)
            assert (error, watermark) == (0, 6)
            assert values_in(sets) == values
            assert {time for _, time, _ in records_in(sets)} == (
                {None} if fetched < 2 else {TIME, TIME + 1, TIME + 2} if magic else {-1}
            )
            assert values_in((await fetch(client, fetched, 4))[2], 4) == values[4:]


@pytest.mark.parametrize("magic", [0, 1])
async def test_every_version_takes_both_magics_and_batches(magic: int) -> None:
    """As in Kafka, which checks the magic only from v3 on."""
    async with served() as (log, client, _):
        for version in range(3):
            ((_, error, *_),) = await produce(client, version, message_set(b"v", magic=magic))
            assert error == 0
            ((_, error, *_),) = await produce(client, version, make_batch(b"w"))
            assert error == 0
        assert [value for _, value in records_of(await log.fetch(0))] == [b"v", b"w"] * 3


async def test_each_set_fails_alone() -> None:
    """S11, with Kafka's errors. A set without a complete message is answered without an offset."""
    async with served(partitions=7, message_timestamp_before_max_ms="100000") as (log, client, _):
        good = message_set(b"good", time=SystemWallClock().now_ms())
        wrong = [good[:-1] + b"X", b"", good[:-1], good[:7], message_set(b"v", time=5), b"\0" * 40]
        answers = await produce(client, 2, good, *wrong)
        assert [(error, offset) for _, error, offset, _ in answers] == [
            (0, 0),
            (CORRUPT, -1),
            (0, -1),
            (0, -1),
            (0, -1),
            (INVALID_TIMESTAMP, -1),
            (CORRUPT, -1),
        ]
        assert records_of(await log.fetch(0)) == [(0, b"good")]
        request = PRODUCE[0](1, 1000, [("nope", [(0, good)]), ("t", [(99, good)])])
        assert (await ask(client, request)).topics == [
            ("nope", [(0, UNKNOWN, -1)]),
            ("t", [(99, UNKNOWN, -1)]),
        ]
        ((_, error, _),) = await produce(client, 0, good, acks=2)
        assert error == INVALID_ACKS


async def test_a_topic_demands_the_same_of_old_producers() -> None:
    """S11: keys on compacted topics, max.message.bytes, and LogAppendTime, which v2 returns."""
    async with served(cleanup_policy="compact", max_message_bytes="200") as (log, client, _):
        keyless = LegacyRecordBatchBuilder(0, 0, 1 << 20)
        keyless.append(0, timestamp=None, key=None, value=b"v")
        ((_, error, _),) = await produce(client, 0, bytes(keyless.build()))
        assert error == INVALID_RECORD
        ((_, error, _),) = await produce(client, 0, message_set(bytes(300), magic=0))
        assert error == TOO_LARGE
        many = message_set(*[None] * 60, magic=0)
        assert len(many) > 4 * 200
        ((_, error, _),) = await produce(client, 0, many)
        assert error == TOO_LARGE
        await log.create_topic("u", message_timestamp_type="LogAppendTime")
        request = PRODUCE[2](1, 1000, [("u", [(0, message_set(b"v"))])])
        ((_, ((_, error, offset, append_time),)),) = (await ask(client, request)).topics
        assert (error, offset) == (0, 0)
        assert append_time > TIME
        ((_, ((_, _, _, sets),)),) = (
            await ask(client, FETCH[2](-1, 0, 1, [("u", [(0, 0, 1 << 20)])]))
        ).responses
        assert records_in(sets) == [(0, append_time, b"v")]


@pytest.mark.slow
@pytest.mark.parametrize("bits", [24, 25])
async def test_what_a_wrapper_unpacks_to_is_bounded(bits: int) -> None:
    """The bound is 16 MiB: a message of almost this size is accepted, but not two."""
    async with served(max_message_bytes="2000000") as (_, client, _):
        values = [bytes((1 << 23) - 100)] * (1 << (bits - 23))
        ((_, error, _),) = await produce(client, 1, message_set(*values, magic=0, codec=1))
        assert error == (0 if bits == 24 else TOO_LARGE)


async def test_acks_0_is_not_answered_and_closes_where_it_fails() -> None:
    async with served(failed=2) as (log, client, port):
        await send(client, PRODUCE[1](0, 1000, [("t", [(0, message_set(b"v"))])]))
        assert (await client.ask(18, 0)).error_code == 0
        assert records_of(await log.fetch(0, max_wait_ms=1000)) == [(0, b"v")]
        for bad in (message_set(b"v")[:-1] + b"X", bytes(40)):
            other = await RawClient.connect(port)
            await send(other, PRODUCE[1](0, 1000, [("t", [(0, bad)])]))
            assert await other.is_closed()


async def test_s12_requests_are_converted_side_by_side_and_kept_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first conversions end last, and one of them hits a bug. Offsets follow the order of sending."""
    ended = [asyncio.Event() for _ in range(6)]
    begun: list[int] = []

    async def backwards(function: Any, *args: Any) -> Any:
        number = len(begun)
        begun.append(number)
        if number + 1 < len(ended):
            await ended[number + 1].wait()
        ended[number].set()
        if number == 3:
            raise ValueError("a mistake")
        return function(*args)

    monkeypatch.setattr("lacuna.agent.produce.message_sets.convert", backwards)
    async with served(failed=1) as (log, client, _):
        for number in range(6):
            data = message_set(*[b"%d" % number] * (number + 1))
            await send(client, PRODUCE[2](1, 5000, [("t", [(0, data)])]))
        errors_and_offsets = []
        for _ in range(6):
            answer = await client.frame()
            # Correlation id, one topic, "t", one partition, its index; then error and offset.
            errors_and_offsets.append(struct.unpack_from(">hq", answer, 4 + 4 + 3 + 4 + 4))
        assert begun == list(range(6))
        assert errors_and_offsets == [(0, 0), (0, 1), (0, 3), (-1, -1), (0, 6), (0, 11)]
        values = [value for _, value in records_of(await log.fetch(0))]
        assert values == [b"%d" % n for n in (0, 1, 2, 4, 5) for _ in range(n + 1)]


async def holes(log: Log) -> None:
    """Write offsets 0-1 aborted, 2 plain, 3-4 aborted, 5 committed, and 6-7 aborted."""
    for values, end in (
        ((b"x", b"x"), False),
        ((b"two",), None),
        ((b"x", b"x"), False),
        ((b"five",), True),
        ((b"x", b"x"), False),
    ):
        if end is None:
            await log.produce(make_batch(*values))
        else:
            writer = await log.writer("tx")
            await writer.send(*values)
            await writer.end(committed=end)


@pytest.mark.parametrize("version", range(4))
async def test_s24_aborted_records_are_seen_until_they_are_gone(version: int) -> None:
    """read_uncommitted sees them as in Kafka; afterwards, it sees holes followed by the next record."""
    async with served() as it:
        await holes(it.log)
        _, watermark, sets = await fetch(it.client, version, 0)
        assert watermark == 8
        assert [offset for offset, _ in values_in(sets)] == list(range(8))
        await it.compact()
        for offset in range(6):
            _, watermark, sets = await fetch(it.client, version, offset)
            assert watermark == 8
            assert values_in(sets, offset) == [
                record for record in ((2, b"two"), (5, b"five")) if record[0] >= offset
            ]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("offset", [6, 7, 8])
async def test_s24_a_tail_hole_is_waited_out(version: int, offset: int) -> None:
    """The answer is empty after max_wait, without an error; later records are returned immediately."""
    async with served() as it:
        await holes(it.log)
        await it.compact()
        loop = asyncio.get_running_loop()
        begin = loop.time()
        assert await fetch(it.client, version, offset, wait=80) == [0, 8, b""]
        assert loop.time() - begin >= 0.075
        waiting = asyncio.ensure_future(fetch(it.client, version, offset, wait=600_000))
        other = await RawClient.connect(it.port)
        ((_, error, *_),) = await produce(other, 2, message_set(b"eight"))
        assert error == 0
        _, watermark, sets = await asyncio.wait_for(waiting, 60)
        assert watermark == 9
        assert values_in(sets) == [(8, b"eight")]
        await other.close()


async def test_a_hole_beyond_what_is_read_at_once_is_passed() -> None:
    """The agent's limits are smaller than the stretch around the hole."""
    limits = FetchSettings(max_response_bytes=4096, read_ahead_bytes=0)
    async with served(fetch=limits) as it:
        await it.log.produce(make_batch(b"first"))
        for _ in range(30):
            writer = await it.log.writer("tx")
            await writer.send(bytes(500))
            await writer.end(committed=False)
        await it.log.produce(make_batch(b"last"))
        await it.compact()
        for version in range(4):
            _, _, sets = await fetch(it.client, version, 1, size=100)
            assert values_in(sets, 1) == [(31, b"last")]


@pytest.mark.parametrize("version", range(3))
async def test_before_kip_74_a_large_message_is_cut_off(version: int) -> None:
    """The client sees that it must request more. After an empty answer, it would retry forever."""
    async with served(partitions=2) as (log, client, _):
        for partition in range(2):
            await log.produce(make_batch(bytes(5000)), partition=partition)
        answer = await ask(client, asked(version, {0: 0, 1: 0}, size=1000))
        ((_, partitions),) = answer.responses
        for _, error, watermark, sets in partitions:
            assert (error, watermark, len(sets)) == (0, 1, 1000)
            assert records_in(sets) == []
        sets = (await fetch(client, version, 0, size=6000))[2]
        assert values_in(sets) == [(0, bytes(5000))]


async def test_from_kip_74_on_the_first_message_comes_whole() -> None:
    async with served(partitions=2) as (log, client, _):
        for partition in range(2):
            await log.produce(make_batch(bytes(5000)), partition=partition)
        answer = await ask(client, asked(3, {1: 0, 0: 0}, size=1000))
        ((_, partitions),) = answer.responses
        (first, _, _, sets), (second, error, watermark, nothing) = partitions
        assert (first, second) == (1, 0)
        assert values_in(sets) == [(0, bytes(5000))]
        assert (error, watermark, nothing) == (0, 1, b"")
        _, _, sets = await fetch(client, 3, 0, all_sizes=10)
        assert values_in(sets) == [(0, bytes(5000))]


@pytest.mark.parametrize("version", range(4))
async def test_a_walk_with_small_limits_meets_every_record(version: int) -> None:
    """With plain, compressed and coalesced batches, each fetch makes progress."""
    async with served() as (log, client, _):
        for number in range(60):
            codec = list(Codec)[number % len(Codec)]
            await log.produce(make_batch(*([b"%d" % number] * 3), codec=codec))
        offset, found = 0, []
        while offset < 180:
            sets = (await fetch(client, version, offset, size=200))[2]
            records = values_in(sets, offset)
            assert records
            found += records
            offset = records[-1][0] + 1
        assert found == [(offset, b"%d" % (offset // 3)) for offset in range(180)]


async def test_errors_of_partitions() -> None:
    """They are the same as in newer versions; OFFSET_OUT_OF_RANGE follows a confirming read (S7)."""
    async with served() as (log, client, _):
        await log.produce(make_batch(b"a", b"b"))
        for version in range(4):
            assert await fetch(client, version, 9, wait=600_000) == [OUT_OF_RANGE, -1, b""]
            answer = await ask(client, asked(version, {0: 0, 7: 0}, wait=600_000))
            ((_, partitions),) = answer.responses
            codes = {partition: error for partition, error, _, _ in partitions}
            assert codes == {0: 0, 7: UNKNOWN}


async def test_offsets_before_a_time() -> None:
    """ListOffsets v0 returns the first offsets of extents written by then, latest first, and the end."""
    async with served() as (log, client, _):

        async def offsets(
            timestamp: int, most: int = 10, partition: int = 0
        ) -> tuple[int, list[int]]:
            request = ListOffsetsRequest_v0(-1, [("t", [(partition, timestamp, most)])])
            ((_, ((_, error, found),)),) = (await ask(client, request)).topics
            return error, found

        assert await offsets(-1) == await offsets(-2) == (0, [0])
        assert await offsets(TIME) == (0, [])
        for time in (TIME, TIME + 1000, TIME + 2000):
            await log.produce(make_batch(b"a", b"b", timestamp=time))
        assert await offsets(-1) == (0, [6, 4, 2, 0])
        assert await offsets(-1, 1) == (0, [6])
        assert await offsets(-1, 2) == (0, [6, 4])
        assert await offsets(-1, 0) == await offsets(-1, -5) == await offsets(-2, 0) == (0, [])
        assert await offsets(TIME + 1001) == (0, [2, 0])
        assert await offsets(TIME + 1000) == (0, [0])
        assert await offsets(2**62) == (0, [6, 4, 2, 0])
        await log.delete_records(3)
        assert await offsets(-2) == (0, [3])
        assert await offsets(-1) == (0, [6, 4, 3])
        assert await offsets(-1, 1, partition=7) == (UNKNOWN, [])
        assert await offsets(-3) == await offsets(-3, 1, partition=7) == (35, [])
        for _ in range(MAX_OFFSETS):
            await log.produce(make_batch(b"more"))
        assert len((await offsets(-1, 2**31 - 1))[1]) == MAX_OFFSETS


async def test_nothing_is_converted_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch may hold megabytes, so it is not converted if the answer is full."""
    converted = []

    async def counting(function: Any, *args: Any, **options: Any) -> Any:
        converted.append(options["first_offset"])
        return function(*args, **options)

    monkeypatch.setattr("lacuna.agent.fetch.message_sets.convert", counting)
    async with served(partitions=4) as (log, client, _):
        for partition in range(4):
            await log.produce(make_batch(*[b"x"] * 20), partition=partition)
        answer = await ask(client, asked(3, dict.fromkeys(range(4), 0), all_sizes=1000))
        ((_, partitions),) = answer.responses
        assert [len(values_in(sets)) for *_, sets in partitions][1:] == [8, 0, 0]
        assert [error for _, error, *_ in partitions] == [0] * 4
        assert len(converted) == 3


async def test_no_partition_is_always_the_last() -> None:
    """Before v3, a client cannot bound an answer and need not rotate its partitions, so the agent rotates them."""
    limits = FetchSettings(max_response_bytes=4096, read_ahead_bytes=0)
    async with served(partitions=4, fetch=limits) as (log, client, _):
        for partition in range(4):
            await log.produce(make_batch(bytes(3000)), partition=partition)
        first = set()
        for _ in range(40):
            answer = await ask(client, asked(0, dict.fromkeys(range(4), 0)))
            ((_, partitions),) = answer.responses
            assert sum(len(sets) for *_, sets in partitions) <= 4096
            first |= {partition for partition, _, _, sets in partitions if values_in(sets)}
        assert first == set(range(4))
