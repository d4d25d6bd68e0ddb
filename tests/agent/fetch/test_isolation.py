"""No byte of an uncommitted transaction reaches a read_committed client (S14, S15, S19).

This holds regardless of what others had coalesced before. These tests examine the bytes of the answers, including
offsets that a client would skip.
"""

import asyncio
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from lacuna.agent.fetch import coalescing, gather
from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.wire.messages.fetch import PartitionData
from tests.agent.fetch.log import Log, Writer, make_batch, next_offset_of, open_log, records_of
from tests.seeds import seeds

PLAIN, COMMITTED, ABORTED = "plain", "committed", "aborted"
MARK = re.compile(rb"<(\d+)>")


def marks_of(answer: PartitionData) -> list[int]:
    """Return the numbers of all values found in the bytes of an answer, in order."""
    return [int(number) for number in MARK.findall(b"".join(answer.records or ()))]


def mark(number: int) -> bytes:
    return b"<%d>" % number


async def three_runs(log: Log) -> Writer:
    """Write offsets 0-2 plain, 3-5 in an open transaction, and 6-8 plain."""
    await log.create_topic("t")
    writer = await log.writer("x")
    for first in (0, 3, 6):
        for number in range(first, first + 3):
            if first == 3:
                await writer.send(mark(number))
            else:
                await log.produce(make_batch(mark(number)))
    return writer


@pytest.mark.parametrize("is_cached_while_open", [True, False])
@pytest.mark.parametrize("offset", range(9))
async def test_s14_aborted_records_that_another_level_cached_stay_here(
    offset: int, is_cached_while_open: bool
) -> None:
    async with open_log() as log:
        writer = await three_runs(log)
        if is_cached_while_open:
            await log.fetch(0, isolation=READ_UNCOMMITTED)
        await writer.end(committed=False)
        if not is_cached_while_open:
            await log.fetch(0, isolation=READ_UNCOMMITTED)
        for _ in range(2):
            numbers = marks_of(await log.fetch(offset))
            assert {3, 4, 5}.isdisjoint(numbers)
            assert {number for number in (0, 1, 2, 6, 7, 8) if number >= offset} <= {*numbers}
        for asked in range(9):
            everything = marks_of(await log.fetch(asked, isolation=READ_UNCOMMITTED))
            assert {*range(asked, 9)} <= {*everything}


async def test_s14_nothing_of_an_open_transaction_is_sent_along() -> None:
    """The last stable offset lies in the middle of a batch that was coalesced for a read_uncommitted client."""
    async with open_log() as log:
        await three_runs(log)
        await log.fetch(0, isolation=READ_UNCOMMITTED)
        for offset in range(3):
            numbers = marks_of(await log.fetch(offset))
            assert {*range(offset, 3)} <= {*numbers} <= {0, 1, 2}


async def test_s14_aborted_records_that_housekeeping_took_away_stay_away() -> None:
    """Their extents and dead range are gone, and the neighbouring records are unchanged."""
    async with open_log() as log:
        writer = await three_runs(log)
        await log.fetch(0, isolation=READ_UNCOMMITTED)
        await writer.end(committed=False)
        with ThreadPoolExecutor(1) as executor:
            only_dead = MergeSettings(min_extents=100, small_bytes=0, min_age_ms=0)
            merger = Merger(log.control, log.store, log.lease, executor, only_dead)
            report = await merger.run_once()
        assert report is not None
        assert (report.extents_after, report.bytes_written) == (0, 0)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            for offset in (6, 7, 8):
                assert {*range(3, 6)}.isdisjoint(
                    marks_of(await log.fetch(offset, isolation=isolation))
                )


async def test_s19_records_that_nobody_drops_are_coalesced_once_for_both_levels() -> None:
    """This includes fetches from the middle of a batch, since all records before it are live."""
    async with open_log() as log:
        await log.create_topic("t")
        for number in range(9):
            await log.produce(make_batch(mark(number)))
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            for offset in range(9):
                assert marks_of(await log.fetch(offset, isolation=isolation)) == [*range(9)]
        assert log.fetch_service.cache.metrics.coalesced == 1


@dataclass
class Model:
    """Every record by offset: the number of its transaction (0 for none), and the outcomes of transactions."""

    transactions: list[int] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)
    is_merged: bool = False

    def last_stable_offset(self) -> int:
        for offset, transaction in enumerate(self.transactions):
            if transaction and transaction not in self.outcomes:
                return offset
        return len(self.transactions)

    def is_committed(self, offset: int) -> bool:
        """Return whether a read_committed client may receive it."""
        outcome = self.outcomes.get(self.transactions[offset], PLAIN)
        return offset < self.last_stable_offset() and outcome != ABORTED

    def check(self, answer: PartitionData, asked: int, isolation: int) -> None:
        """Check that the answer has everything requested and nothing forbidden."""
        read = [offset for offset, _ in records_of(answer) if offset >= asked]
        assert marks_of(answer) == [offset for offset, _ in records_of(answer)]
        end = next_offset_of(answer) if answer.records else asked
        kept = [offset for offset in range(asked, end) if self.is_committed(offset)]
        if isolation == READ_COMMITTED:
            assert all(map(self.is_committed, marks_of(answer)))
            assert end <= max(asked, self.last_stable_offset())
            assert read == kept
        elif self.is_merged:  # which removes aborted records, and no others
            missing = {*range(asked, end)}.difference(read)
            assert {self.outcomes.get(self.transactions[offset]) for offset in missing} <= {ABORTED}
        else:
            assert read == [*range(asked, end)]


class Play:
    """A random history with readers at both levels, each with its own limits and pace."""

    def __init__(self, log: Log, merger: Merger, source: random.Random) -> None:
        self.log = log
        self.merger = merger
        self.source = source
        self.model = Model()
        self.open: dict[int, int] = {}
        self.writers: list[Writer] = []
        self.tails = {READ_COMMITTED: 0, READ_UNCOMMITTED: 0}

    async def begin(self) -> None:
        await self.log.create_topic("t")
        self.writers = [await self.log.writer(f"w{index}") for index in range(3)]

    async def step(self) -> None:
        choice = self.source.random()
        if choice < 0.35:
            await self.write()
        elif choice < 0.5 and self.open:
            await self.end()
        elif choice < 0.52:
            if await self.merger.run_once() is not None:
                self.model.is_merged = True
        elif choice < 0.8:
            await self.tail(self.source.choice((READ_COMMITTED, READ_UNCOMMITTED)))
        else:
            await self.jump(self.source.choice((READ_COMMITTED, READ_UNCOMMITTED)))

    async def write(self) -> None:
        first = len(self.model.transactions)
        values = [mark(first + index) for index in range(self.source.randint(1, 4))]
        which = self.source.randrange(5)
        transaction = 0
        if which < len(self.writers):
            transaction = self.open.setdefault(which, first + 1)
            await self.writers[which].send(*values)
        else:
            await self.log.produce(make_batch(*values))
        self.model.transactions += [transaction] * len(values)

    async def end(self) -> None:
        which = self.source.choice(list(self.open))
        is_kept = self.source.random() < 0.5
        await self.writers[which].end(committed=is_kept)
        self.model.outcomes[self.open.pop(which)] = COMMITTED if is_kept else ABORTED

    async def tail(self, isolation: int) -> None:
        self.tails[isolation] = await self.fetch(self.tails[isolation], isolation, 1 << 20)

    async def jump(self, isolation: int) -> None:
        offset = self.source.randint(0, len(self.model.transactions))
        for _ in range(3):
            offset = await self.fetch(offset, isolation, self.source.randint(200, 9000))

    async def fetch(self, offset: int, isolation: int, limit: int) -> int:
        answer = await self.log.fetch(offset, isolation=isolation, partition_max_bytes=limit)
        self.model.check(answer, offset, isolation)
        return next_offset_of(answer) if answer.records else offset


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [4096, 1 << 20])
@pytest.mark.parametrize("seed", seeds(3, 8))
def test_s14_two_levels_side_by_side_over_random_histories(
    seed: int, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescing, "COALESCED_BATCH_BYTES", 700)
    monkeypatch.setattr(coalescing, "COALESCE_SOURCE_BYTES", 3000)
    monkeypatch.setattr(gather, "SMALLEST_COALESCED_ANSWER", 1000)
    asyncio.run(play(random.Random(seed), cache_bytes))


async def play(source: random.Random, cache_bytes: int) -> None:
    fetch = FetchSettings(cache_bytes=cache_bytes, read_ahead_bytes=4096)
    async with open_log(fetch=fetch) as log:
        with ThreadPoolExecutor(1) as executor:
            merging = MergeSettings(min_extents=6, small_bytes=200, min_age_ms=0)
            merger = Merger(log.control, log.store, log.lease, executor, merging)
            game = Play(log, merger, source)
            await game.begin()
            for _ in range(300):
                await game.step()
