"""Stored batches: their codec, and their layout in a segment (S11, S12, S18)."""

import asyncio
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.produce.buffer import NO_PRODUCER_ID, PendingBatch
from lacuna.agent.produce.check import TopicRules, check_batch
from lacuna.agent.produce.flight import together
from lacuna.agent.produce.recompress import compression_of, recompressed
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.shared.batches import FLAG_LOG_APPEND_TIME, FLAG_TRANSACTIONAL
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS
from lacuna.logstore.objects.s3 import READ_GAP
from lacuna.logstore.records.batch import RecordBatch, read_batches
from lacuna.logstore.records.compression import Compression
from lacuna.logstore.records.errors import DecompressedTooLargeError
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import (
    TIME,
    Log,
    TestStore,
    Writer,
    batches_of,
    make_batch,
    open_log,
    records_of,
)
from tests.doubles.clock import iterations, until

TOO_LARGE, NOT_LEADER = 10, 6
VALUES = [b"value %d " % number * 20 for number in range(30)]
TYPES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def stored(sent: bytes, **configs: str) -> RecordBatch:
    """Return the batch as it is stored in a topic with these configs (with _ for the dots)."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    pending = check_batch(memoryview(sent), (b"t", 0), TopicRules.of(named), 12, TIME)
    change = pending.recompression
    (batch,) = read_batches(pending.part if change is None else change.apply(pending.part))
    return batch


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", TYPES)
def test_every_codec_becomes_the_topics(name: str, codec: Codec) -> None:
    """S23: a batch with the right codec keeps its bytes."""
    sent = make_batch(*VALUES, codec=codec, producer=(7, 3), base_sequence=40, transactional=True)
    batch = stored(sent, compression_type=name)
    (before,) = read_batches(sent)
    assert batch.header.codec is TYPES[name]
    assert batch.records() == before.records()
    changed = before.header._replace(
        attributes=0x10 | TYPES[name], batch_length=batch.header.batch_length, crc=batch.header.crc
    )
    assert batch.header == changed
    if codec is TYPES[name]:
        assert bytes(batch.data) == sent


@pytest.mark.parametrize("codec", Codec)
def test_the_producers_codec_is_kept_by_default(codec: Codec) -> None:
    sent = make_batch(*VALUES, codec=codec)
    assert bytes(stored(sent).data) == sent


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_what_could_not_be_read_again_is_too_large(codec: Codec) -> None:
    sent = make_batch(bytes(2000), codec=codec)
    with pytest.raises(DecompressedTooLargeError):
        recompressed(sent, Compression(Codec.ZSTD), 1000)


@pytest.mark.parametrize("name", TYPES)
async def test_consumers_read_what_was_sent(name: str) -> None:
    """S10: a batch that is sent again is recognized, however it was stored."""
    async with open_log() as log:
        await log.create_topic("t", compression_type=name)
        writer = await log.writer()
        sent = [writer.batch(*VALUES, codec=codec) for codec in Codec]
        for batch in sent:
            assert (await log.produce(batch)).error_code == 0
        assert (await log.produce(sent[-1])).base_offset == 120
        assert [value for _, value in records_of(await log.fetch(0))] == VALUES * len(Codec)


async def test_transactions_and_append_times_go_together_with_it() -> None:
    """Transactional batches stay transactional, and LogAppendTime is set in the new batch."""
    async with open_log() as log:
        await log.create_topic("t", compression_type="zstd", message_timestamp_type="LogAppendTime")
        writer = await log.writer("tx")
        answer = await writer.send(*VALUES, codec=Codec.GZIP)
        await writer.end(committed=True)
        (batch,) = batches_of(await log.fetch(0))
        assert batch.header.is_transactional
        assert batch.header.codec is Codec.ZSTD
        assert {each.timestamp for each in batch.records()} == {answer.log_append_time_ms}


@pytest.mark.parametrize(
    ("given", "compression"),
    [
        ({}, None),
        ({"compression.type": "gzip"}, Compression(Codec.GZIP)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Compression(Codec.GZIP, 9)),
        ({"compression.type": "lz4", "compression.lz4.level": "9"}, Compression(Codec.LZ4)),
        ({"compression.type": "lz4", "compression.lz4.level": "1"}, Compression(Codec.LZ4, 3)),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, Compression(Codec.LZ4, 12)),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, Compression(Codec.ZSTD, 1)),
        ({"compression.type": "zstd", "compression.zstd.level": "22"}, Compression(Codec.ZSTD, 22)),
        ({"compression.type": "snappy", "compression.zstd.level": "5"}, Compression(Codec.SNAPPY)),
        ({"compression.gzip.level": "9"}, None),
    ],
)
def test_levels_are_kafkas(given: dict[str, str], compression: Compression | None) -> None:
    assert given.keys() <= TOPIC_CONFIGS.keys()
    assert compression_of(given) == compression


def test_a_level_has_an_effect() -> None:
    sizes = [
        len(stored(make_batch(*VALUES), compression_type="gzip", compression_gzip_level=level).data)
        for level in ("1", "9")
    ]
    assert sizes[1] < sizes[0]


async def test_the_size_counts_before_and_after() -> None:
    """max.message.bytes works as in Kafka: a batch may grow too large, and shrinking does not help a large one."""
    small = make_batch(*VALUES, codec=Codec.ZSTD)
    large = make_batch(*VALUES)
    limit = str((len(small) + len(large)) // 2)
    async with open_log() as log:
        await log.create_topic("a", compression_type="uncompressed", max_message_bytes=limit)
        assert (await log.produce(small)).error_code == TOO_LARGE
        await log.create_topic("b", compression_type="zstd", max_message_bytes=limit)
        assert (await log.produce(large)).error_code == TOO_LARGE
        assert log.store.metrics.puts == 0


async def test_what_does_not_fit_the_queue_comes_again() -> None:
    """S12: a request of a few bytes may expand to megabytes. A rejected batch leaves a gap, but no disorder."""
    settings = ProduceSettings(max_flushes=1, flush_bytes=1, max_queued_bytes=1)
    async with open_log(produce=settings) as log:
        await log.create_topic("t", compression_type="uncompressed")
        writer = await log.writer()
        batches = [writer.batch(b"%d" % number, codec=Codec.GZIP) for number in range(4)]
        log.store.gate = threading.Event()
        sent = [asyncio.ensure_future(log.produce(batch)) for batch in batches]
        await asyncio.wait(sent[2:], timeout=60)
        log.store.gate.set()
        answers = await asyncio.gather(*sent)
        assert [each.error_code for each in answers] == [0, 0, NOT_LEADER, NOT_LEADER]
        for batch in batches[2:]:
            assert (await log.produce(batch)).error_code == 0
        values = [value for _, value in records_of(await log.fetch(0))]
        assert values == [b"0", b"1", b"2", b"3"]


async def test_nothing_overtakes_a_batch_that_is_compressed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S12: the event loop keeps running, and a batch with the right codec waits behind in its place."""
    began, may_end = threading.Event(), threading.Event()

    def slow(*given: Any) -> bytes:
        began.set()
        assert may_end.wait(60)
        return recompressed(*given)

    monkeypatch.setattr("lacuna.agent.produce.recompress.recompressed", slow)
    async with open_log() as log:
        await log.create_topic("t", compression_type="zstd")
        writer = await log.writer()
        batches = [writer.batch(b"0", codec=Codec.GZIP), writer.batch(b"1", codec=Codec.ZSTD)]
        sent = [asyncio.ensure_future(log.produce(batch)) for batch in batches]
        await asyncio.to_thread(began.wait, 60)
        await iterations()
        assert log.store.metrics.puts == 0
        may_end.set()
        assert [each.base_offset for each in await asyncio.gather(*sent)] == [0, 1]
        assert [value for _, value in records_of(await log.fetch(0))] == [b"0", b"1"]


async def test_a_batch_that_grows_too_large_fails_alone_and_is_told_why() -> None:
    async with open_log() as log:
        await log.create_topic("t", compression_type="uncompressed", max_message_bytes="1000")
        writer = await log.writer()
        answers = [
            await log.produce(writer.batch(value, codec=Codec.GZIP))
            for value in (b"1", b"2" * 5000)
        ]
        assert [each.error_code for each in answers] == [0, TOO_LARGE]
        assert "1000" in (answers[1].error_message or "")


PRODUCERS = 64
BATCHES = 4
BATCH_VALUE = random.Random(0).randbytes(5_000)


def pending(producer_id: int, flags: int) -> PendingBatch:
    return PendingBatch(
        key=(bytes(16), 0),
        part=b"",
        record_count=1,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        flags=flags,
    )


producers = st.one_of(
    st.tuples(st.integers(1, 3), st.just(FLAG_TRANSACTIONAL)),
    st.tuples(st.sampled_from([NO_PRODUCER_ID, 3, 4]), st.just(0)),
)


@given(given_batches=st.lists(st.builds(lambda each: pending(*each), producers)))
def test_s12_a_transaction_is_in_one_piece_and_every_producer_in_its_order(
    given_batches: list[PendingBatch],
) -> None:
    laid = together(given_batches)
    assert sorted(map(id, laid)) == sorted(map(id, given_batches))
    for producer_id in (NO_PRODUCER_ID, 1, 2, 3, 4):
        ours = [batch for batch in given_batches if batch.producer_id == producer_id]
        assert [batch for batch in laid if batch.producer_id == producer_id] == ours
        places = [place for place, batch in enumerate(laid) if batch.producer_id == producer_id]
        if any(batch.flags & FLAG_TRANSACTIONAL for batch in ours):
            assert places == [*range(places[0], places[0] + len(ours))]
    plain = [batch for batch in given_batches if not batch.flags and batch.producer_id != 3]
    assert [batch for batch in laid if not batch.flags and batch.producer_id != 3] == plain


def test_append_times_stay_in_order() -> None:
    flags = FLAG_TRANSACTIONAL | FLAG_LOG_APPEND_TIME
    batches = [pending(producer_id, flags) for producer_id in (1, 2, 1)]
    assert together(batches) == batches


async def send_together(log: Log, writers: list[Writer]) -> None:
    """Write one transaction of each producer into one segment, with their batches interleaved."""
    gate = log.store.gate = threading.Event()
    held = asyncio.ensure_future(log.produce(make_batch(b"plain")))  # the others wait for its flush
    await until(lambda: log.produce_service.flusher.metrics.flushes_now)
    sends = [writer.send(BATCH_VALUE) for _ in range(BATCHES) for writer in writers]
    sent = asyncio.gather(*sends)
    await until(lambda: len(log.produce_service.flusher._buffer) >= len(sends))
    gate.set()
    log.store.gate = None
    answers = await sent
    assert [answer.error_code for answer in answers] == [0] * len(sends)
    assert (await held).error_code == 0


@pytest.mark.slow
async def test_s18_most_of_what_aborts_among_many_producers_is_not_read_on_s3() -> None:
    """64 producers, transactions of 20 kB, 90 % aborted: only gaps that are cheaper than a request are read."""
    source = random.Random(1)
    async with open_log(store=TestStore(READ_GAP)) as log:
        await log.create_topic("t")
        writers = [await log.writer(f"x{number}") for number in range(PRODUCERS)]
        kept = 0
        for _ in range(8):
            await send_together(log, writers)
            for writer in writers:
                is_kept = source.random() < 0.1
                kept += is_kept
                await writer.end(committed=is_kept)
        view = log.control.partition(log.topic_id, 0)
        await view.ready()
        extents = view.extents
        assert len(extents) == 8 * (
            PRODUCERS + 1
        )  # one per transaction, though each sent four times
        stored, batch = sum(extents.sizes), len(make_batch(BATCH_VALUE))
        committed = kept * BATCHES * batch + 8 * len(make_batch(b"plain"))
        before = log.store.metrics.bytes_read
        answer = await log.fetch(0, partition_max_bytes=4 << 20, max_bytes=8 << 20)
        assert len(records_of(answer)) == kept * BATCHES + 8
        metrics = log.store.metrics
        assert metrics.bytes_read - before == committed + metrics.bytes_between
        assert metrics.bytes_between < 0.2 * (stored - committed)
        cache = log.fetch_service.cache
        assert cache.metrics.bytes_read == metrics.bytes_read
