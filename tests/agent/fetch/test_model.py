"""Random histories, fetched in random ways, compared with a model of every record's outcome."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED, size_of
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import (
    Log,
    TestStore,
    Writer,
    batches_of,
    make_batch,
    open_log,
)

PLAIN, COMMITTED, ABORTED = "plain", "committed", "aborted"
CODECS = [Codec.NONE, Codec.LZ4, Codec.ZSTD]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 3), st.sampled_from([5, 3000, 9000])),
        st.tuples(st.just("send"), st.integers(0, 2), st.sampled_from([5, 3000, 9000])),
        st.tuples(st.just("end"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("merge"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@dataclass
class Model:
    """Every record by offset: its value and the number of its transaction, 0 for none."""

    records: list[tuple[bytes, int]] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)

    def last_stable_offset(self) -> int:
        """Return the first offset of a transaction that is still open."""
        for offset, (_, transaction) in enumerate(self.records):
            if transaction and transaction not in self.outcomes:
                return offset
        return len(self.records)

    def committed(self) -> list[tuple[int, bytes]]:
        """Return exactly the records that read_committed must return."""
        return [
            (offset, value)
            for offset, (value, transaction) in enumerate(self.records)
            if offset < self.last_stable_offset()
            and self.outcomes.get(transaction, PLAIN) != ABORTED
        ]


async def play(log: Log, history: list[tuple[str, int, int]], merger: Merger) -> Model:
    """Perform all operations, and record them."""
    model, open_transactions = Model(), dict[int, int]()
    writers: list[Writer] = [await log.writer(f"w{index}") for index in range(3)]
    for number, (kind, which, what) in enumerate(history, 1):
        value = b"%d." % number * (what // 3 + 1)
        if kind == "plain":
            values = [value + b"%d" % index for index in range(which)]
            await log.produce(make_batch(*values, codec=CODECS[number % 3]))
            model.records += [(each, 0) for each in values]
        elif kind == "send":
            transaction = open_transactions.setdefault(which, number)
            answer = await writers[which].send(value, codec=CODECS[number % 3])
            assert answer.error_code == 0
            model.records.append((value, transaction))
        elif kind == "end" and which in open_transactions:
            await writers[which].end(committed=bool(what))
            model.outcomes[open_transactions.pop(which)] = COMMITTED if what else ABORTED
        elif kind == "merge":
            await merger.run_once()
    return model


async def read_all(log: Log, isolation: int, limit: int) -> list[tuple[int, bytes]]:
    """Read like a client: continue at the next offset of each answer until no more records are returned."""
    offset = 0
    seen: list[tuple[int, bytes]] = []
    while True:
        answer = await log.fetch(offset, isolation=isolation, partition_max_bytes=limit)
        batches = batches_of(answer)
        bound = answer.last_stable_offset if isolation else answer.high_watermark
        if not batches:
            assert offset == bound
            return seen
        assert all(batch.header.record_count for batch in batches)
        assert size_of(answer) <= limit or len(batches) == 1
        for batch in batches:
            header = batch.header
            assert header.next_offset > offset
            assert header.partition_leader_epoch == 0
            if not header.is_control:
                seen += [(record.offset, record.value or b"") for record in batch.records()]
            offset = header.next_offset
        assert offset <= bound


async def check(
    history: list[tuple[str, int, int]], limit: int, gap: int, cache_bytes: int
) -> None:
    fetch = FetchSettings(cache_bytes=cache_bytes, read_ahead_bytes=20_000)
    async with open_log(store=TestStore(gap), fetch=fetch) as log:
        await log.create_topic("t")
        with ThreadPoolExecutor(1) as executor:
            merging = MergeSettings(min_extents=2, small_bytes=1 << 20)
            merger = Merger(log.control, log.store, log.lease, executor, merging)
            model = await play(log, history, merger)
        for _ in range(2):
            committed = await read_all(log, READ_COMMITTED, limit)
            assert committed == model.committed()
        everything = await read_all(log, READ_UNCOMMITTED, limit)
        is_merged = any(kind == "merge" for kind, _, _ in history)
        expected = [(offset, value) for offset, (value, _) in enumerate(model.records)]
        if is_merged:
            # S14: only aborted records that compaction removed are holes here too.
            missing = [each for each in expected if each not in everything]
            assert [each for each in expected if each in everything] == everything
            gone = {model.outcomes.get(model.records[offset][1]) for offset, _ in missing}
            assert gone <= {ABORTED}
        else:
            assert everything == expected


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    history=steps,
    limit=st.sampled_from([1, 400, 5000, 1 << 20]),
    gap=st.sampled_from([0, 500, 1 << 20]),
    cache_bytes=st.sampled_from([4096, 1 << 20]),
)
def test_s14_to_s19_what_a_consumer_gets_is_what_the_model_says(
    history: list[tuple[str, int, int]], limit: int, gap: int, cache_bytes: int
) -> None:
    asyncio.run(check(history, limit, gap, cache_bytes))
