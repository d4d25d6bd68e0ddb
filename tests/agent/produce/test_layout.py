"""The layout of batches in a segment: a transaction is contiguous, so that an aborted one leaves one gap (S12, S18)."""

import asyncio
import random
import threading

from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.produce.buffer import NO_PRODUCER_ID, PendingBatch
from lacuna.agent.produce.flush import together
from lacuna.controlplane.shared.batches import FLAG_LOG_APPEND_TIME, FLAG_TRANSACTIONAL
from lacuna.logstore.objects.s3 import READ_GAP
from tests.agent.fetch.log import Log, TestStore, Writer, make_batch, open_log, records_of

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
    """Write one transaction of each producer into one segment, with their batches in turn."""
    gate = log.store.gate = threading.Event()
    held = asyncio.ensure_future(log.produce(make_batch(b"plain")))  # the others wait for its flush
    while not log.produce_service.flusher.metrics.flushes_now:
        await asyncio.sleep(0)
    sends = [writer.send(BATCH_VALUE) for _ in range(BATCHES) for writer in writers]
    sent = asyncio.gather(*sends)
    while len(log.produce_service.flusher._buffer) < len(sends):
        await asyncio.sleep(0)
    gate.set()
    log.store.gate = None
    answers = await sent
    assert [answer.error_code for answer in answers] == [0] * len(sends)
    assert (await held).error_code == 0


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
        assert len(extents) == 8 * (PRODUCERS + 1)  # one a transaction, though each sent four times
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
