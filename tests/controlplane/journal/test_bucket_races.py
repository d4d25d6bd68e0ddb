"""Tests several leaders of a bucket journal, in random interleavings on virtual time.

Control planes open the journal, append, renew, take snapshots, leave, pause for longer than their lease, and are
killed. Requests fail, lose their answers, and arrive late. Every acknowledged record must be in the journal once, at
its position, and all readers must see the same journal.
"""

import asyncio
import random

import pytest

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalCorrupt,
    JournalError,
    JournalReader,
    JournalTrimmed,
    Snapshot,
)
from tests.controlplane.journal.conftest import led
from tests.doubles.bucket import BucketFault, FaultyBucket
from tests.seeds import seeds
from tests.simulation.loop import Process, SimulatedLoop

SECONDS = 12.0
PLANES = 3


class Wrong(AssertionError):
    """A violated invariant."""


class Race:
    """One history. `lease` applies to all control planes, in seconds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lease = self.random.choice([0.0, 0.5, 1.0])
        self.loop = SimulatedLoop(random.Random(seed + 1))  # type: ignore[abstract]
        self.bucket = FaultyBucket()
        self.bucket.choose = self.choose
        self.bucket.on_late = self.delay
        self.rate = self.random.choice([0.0, 0.02, 0.1])
        #: By position, what a control plane was told is durable.
        self.acknowledged: dict[int, bytes] = {}
        #: By position, what somebody has read.
        self.seen: dict[int, bytes] = {}
        self.takeovers = 0
        self.trimmed = 0
        self.wrong: list[Exception] = []
        self._is_over = False
        self._names = 0

    def choose(self, operation: str, key: str) -> BucketFault | None:
        if self.random.random() >= self.rate:
            return None
        return self.random.choice(list(BucketFault))

    def delay(self, arrive: object) -> None:
        self.loop.call_in(self.loop.world, self.random.expovariate(0.5), arrive)  # type: ignore[arg-type]

    def journal(self, process: Process) -> BucketJournal:
        return BucketJournal(
            self.bucket,
            lambda: "made",
            address=process.name,
            lease=self.lease,
            answer_timeout=self.random.choice([0.3, 1.0]),
            clock=process,
            new_id=lambda: self.random.randbytes(16),
        )

    def run(self) -> None:
        for number in range(PLANES):
            self.start(number)
        follower = self.loop.process("follower")
        follower.start(self.follow(self.journal(follower).reader()))
        self.loop.run(SECONDS)
        self._is_over = True
        self.bucket.heal()
        self.lease = 0.0
        for process in self.loop.processes[1:]:
            process.kill()
        last = self.loop.process("last")
        done = last.start(self.finish(last))
        self.loop.run(SECONDS + 300)
        is_done = done.done()
        self.loop.end()
        if self.wrong:
            raise self.wrong[0]
        assert is_done
        done.result()

    def start(self, number: int) -> None:
        self._names += 1
        process = self.loop.process(f"plane-{number}-{self._names}")
        process.start(self.lead(process))
        self.loop.call_in(
            self.loop.world, self.random.expovariate(0.3), self.disturb, number, process
        )

    def disturb(self, number: int, process: Process) -> None:
        """Pause a control plane, or kill it and start another one."""
        if self._is_over:
            return
        if self.random.random() < 0.3:
            process.kill()
            self.start(number)
            return
        process.pause()
        self.loop.call_in(self.loop.world, self.random.expovariate(0.5), process.go_on)
        self.loop.call_in(
            self.loop.world, self.random.expovariate(0.2), self.disturb, number, process
        )

    async def lead(self, process: Process) -> None:
        journal = self.journal(process)
        while True:
            await asyncio.sleep(self.random.expovariate(2.0))
            try:
                await self.reign(journal, process)
            except (Wrong, JournalCorrupt) as wrong:
                self.stop(wrong)
                return
            except JournalError:
                pass
            await journal.close()

    async def reign(self, journal: BucketJournal, process: Process) -> None:
        before = dict(self.acknowledged)
        opened = await journal.open(None)
        self.takeovers += 1
        log = await replayed(journal)
        self.compare(log)
        if len(log) < opened.position or any(at > len(log) for at in before):
            raise Wrong(f"{len(log)} records at {opened}, {max(before, default=0)} were known")
        if len(log) > opened.position:
            return  # it was paused, and a successor has stored a later snapshot
        renewing = asyncio.create_task(self.renew(journal, opened.fencing_token))
        try:
            while self.random.random() > 0.003:
                count = self.random.randint(1, 3)
                records = [self.random.randbytes(8) for _ in range(count)]
                end = await journal.append(records, opened.fencing_token)
                self.acknowledge(end, records)
                log += records
                if self.random.random() < 0.03:
                    await journal.store_snapshot(Snapshot(end, (b"".join(log),)))
                    self.trimmed += 1
                if self.random.random() < 0.1:
                    await asyncio.sleep(self.random.expovariate(10))
        finally:
            renewing.cancel()

    async def renew(self, journal: BucketJournal, fencing_token: int) -> None:
        try:
            while True:
                await asyncio.sleep(max(self.lease, 0.3) / 3)
                await journal.renewer(fencing_token).renew()
        except JournalError:
            return

    def acknowledge(self, end: int, records: list[bytes]) -> None:
        for position, record in enumerate(records, end - len(records) + 1):
            if self.acknowledged.setdefault(position, record) != record:
                raise Wrong(f"two records were acknowledged at position {position}")

    def compare(self, log: list[bytes]) -> None:
        """Check that all readers see the same journal, with every acknowledged record."""
        for position, record in enumerate(log, 1):
            if self.seen.setdefault(position, record) != record:
                raise Wrong(f"position {position} was read differently")
            if self.acknowledged.get(position, record) != record:
                raise Wrong(f"position {position} has another record than was acknowledged")

    def stop(self, wrong: Exception) -> None:
        self.wrong.append(wrong)
        self.loop.stop()

    async def follow(self, reader: JournalReader) -> None:
        log: list[bytes] = []
        while True:
            await asyncio.sleep(self.random.expovariate(1.0))
            try:
                await reader.leader()
                async for batch in reader.read(len(log)):
                    log += batch.records
                    if len(log) != batch.position:
                        raise Wrong(f"{len(log)} records at {batch.position}")
                self.compare(log)
            except JournalTrimmed:
                log = await self.loaded(reader)
            except (Wrong, JournalCorrupt) as wrong:
                self.stop(wrong)
                return
            except JournalError:
                continue

    async def loaded(self, reader: JournalReader) -> list[bytes]:
        try:
            snapshot = await reader.load_snapshot()
        except JournalError:
            return []
        return [] if snapshot is None else records_of(snapshot)

    async def finish(self, process: Process) -> None:
        async with led(self.journal(process)) as (journal, _):
            log = await replayed(journal)
            self.compare(log)
            if max(self.acknowledged, default=0) > len(log):
                raise Wrong("the last that were acknowledged are missing")
            if len(set(log)) != len(log):
                raise Wrong("a record is there twice")
        self.loop.stop()


async def replayed(journal: Journal) -> list[bytes]:
    snapshot = await journal.load_snapshot()
    log = [] if snapshot is None else records_of(snapshot)
    async for batch in journal.read(len(log)):
        log += batch.records
        if len(log) != batch.position:
            raise Wrong(f"{len(log)} records at position {batch.position}")
    return log


def records_of(snapshot: Snapshot) -> list[bytes]:
    state = b"".join(snapshot.parts)
    return [state[at : at + 8] for at in range(0, len(state), 8)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3, 16))
def test_what_was_acknowledged_is_there_once(seed: int) -> None:
    race = Race(20 + seed)
    race.run()
    assert race.loop.unhandled == []
    assert race.takeovers > 1
    assert race.acknowledged
