"""Tests that a thread renews a leader's lease even while its event loop is busy."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_manifest import HeldManifest, Manifest, Mark, load_manifest
from lacuna.controlplane.journal.journal import (
    JournalError,
    JournalFenced,
    JournalReader,
    SharedJournal,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.postgresql import PostgresqlJournal
from lacuna.controlplane.journal.renewing import beside_the_loop, renew_forever
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.tenure import LeasedTenure
from lacuna.logstore.objects import MemoryStore
from tests.controlplane.journal.conftest import led
from tests.controlplane.runtime.rig import created, nobody
from tests.doubles.clock import LeaseClock

LEASE = 3.0
#: Longer than anything takes on a machine that is busy.
LONG = 200.0
#: Twice this is less than a loop may be silent.
FEW_LEASES_MS = 4 * LEASE * 1000


MakeJournal = Callable[[float, Clock], SharedJournal]
"""Returns the journal, with a lease in seconds of a clock."""


@pytest.fixture(params=["bucket", "postgresql"])
def make_journal(request: pytest.FixtureRequest) -> MakeJournal:
    if request.param == "bucket":
        bucket = MemoryStore()
        return lambda lease, clock: BucketJournal(
            bucket, lambda: "made", address="a:1", lease=lease, clock=clock
        )
    url = request.getfixturevalue("database")
    return lambda lease, clock: PostgresqlJournal(
        url, lambda: "made", address="a:1", lease=lease, watch=LeaderWatch(clock)
    )


def make_runtime(
    journal: SharedJournal,
    replica: Replica,
    tenure: LeasedTenure,
    on_fatal: Callable[[BaseException], None],
) -> Runtime:
    return Runtime(
        journal,
        SystemClock(),
        lambda: bytes(16),
        RuntimeSettings(),
        replica=replica,
        tenure=tenure,
        confirm=journal.confirm,
        on_fatal=on_fatal,
    )


@dataclass(slots=True)
class Leading:
    """A control plane that is the leader, and the task that runs it."""

    node: Node
    running: "asyncio.Task[None]"

    async def close(self) -> None:
        """Stop it as its service does."""
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.node.close()


@asynccontextmanager
async def leading(make_journal: MakeJournal, clock: LeaseClock) -> AsyncIterator[Leading]:
    """A control plane that is the leader. Time stops a few leases after it began to lead, until the test sets
    `clock.end_ms`.

    A loop that briefly gets no CPU time has not hung. Opening a journal may take long, so time passes until then.
    """

    def make_plane_and_stop_time(
        journal: SharedJournal,
        replica: Replica,
        tenure: LeasedTenure,
        on_fatal: Callable[[BaseException], None],
    ) -> Runtime:
        clock.end_ms = clock.passed_ms() + FEW_LEASES_MS
        return make_runtime(journal, replica, tenure, on_fatal)

    node = Node(make_plane_and_stop_time, clock, nobody)
    changed = asyncio.Event()

    async def on_change() -> None:
        if node.runtime is not None:
            changed.set()

    node.begin("a:1", lambda _: make_journal(LEASE, clock), on_change)
    made = Leading(node, asyncio.create_task(node.run()))
    async with asyncio.timeout(LONG):
        await changed.wait()
    yield made
    clock.end_ms = inf
    await made.close()


def in_a_thread(watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `watch` in another thread, and block this thread and its event loop until it ends."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(asyncio.wait_for(watch(), LONG))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def lease_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "lease"]


async def epoch_of(reader: JournalReader, lease: float) -> int:
    """Look as a standby does. Return the epoch of the leader, which has renewed within the last lease."""
    leader = await reader.leader()
    assert leader is not None
    assert leader.silent < lease
    return leader.epoch


async def test_a_busy_loop_keeps_its_lease(make_journal: MakeJournal) -> None:
    """A standby watches during three leases of real renewals."""
    clock = LeaseClock()
    async with leading(make_journal, clock) as leader:
        runtime = leader.node.runtime
        assert runtime is not None

        async def stand_by() -> None:
            reader = make_journal(LEASE, clock).reader()
            until = clock.passed_ms() + 3 * LEASE * 1000
            while clock.passed_ms() < until:
                assert await epoch_of(reader, LEASE) == 1
            await reader.close()

        clock.end_ms = clock.passed_ms() + FEW_LEASES_MS
        in_a_thread(stand_by)
        client = InProcessClient(runtime)
        await created(client)
        await client.close()
        assert leader.node.runtime is runtime


async def test_a_renewal_that_is_fenced_ends_the_tenure_at_once(make_journal: MakeJournal) -> None:
    """It ends before the loop is notified, since later decisions would come from a deposed leader."""
    clock = LeaseClock()
    async with leading(make_journal, clock) as leader:
        runtime = leader.node.runtime
        assert runtime is not None

        async def take_over() -> None:
            async with led(make_journal(0.0, clock)) as (other, _):
                while runtime._tenure is not None and runtime._tenure.holds():
                    await asyncio.sleep(0.002)
                other.abandon()

        clock.end_ms = inf
        in_a_thread(take_over)
        assert not runtime._leads()
        async with asyncio.timeout(LONG):
            while leader.node.runtime is runtime:
                await leader.node.changed.wait()


async def test_the_thread_ends_with_the_leadership(make_journal: MakeJournal) -> None:
    before = lease_threads()
    clock = LeaseClock()
    async with leading(make_journal, clock) as leader:
        assert len(lease_threads()) == len(before) + 1
        clock.end_ms = inf
        await leader.close()
        assert lease_threads() == before
        passed_ms = clock.passed_ms()
        reader = make_journal(LEASE, clock).reader()
        assert await reader.leader() is None
        await reader.close()
        assert clock.passed_ms() == passed_ms


class Counted:
    """A renewer that only counts, and may fail."""

    def __init__(self, fails: JournalError | None = None) -> None:
        self.renewals = 0
        #: Counts what a loop that hangs has not awaited yet.
        self.renewed = threading.Semaphore(0)
        self.closed = threading.Event()
        self._fails = fails

    async def renew(self) -> None:
        if self._fails is not None:
            raise self._fails
        self.renewals += 1
        self.renewed.release()

    async def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize(("lease", "seconds"), [(3.0, 30), (20.0, 60)])
async def test_a_loop_that_hangs_is_given_up(
    lease: float, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The log immediately shows the line that blocks, because the loop may never resume."""
    clock = LeaseClock()
    tenure, renewer = LeasedTenure(clock, lease), Counted()
    tenure.renewed(clock.passed_ms())
    work = partial(renew_forever, renewer, tenure, clock, lease)
    async with beside_the_loop(work, clock, lease) as ended:
        began_ms = clock.passed_ms()
        assert renewer.closed.wait(LONG)
        assert not tenure.holds()
        assert seconds * 1000 <= clock.passed_ms() - began_ms <= (seconds + lease) * 1000
        assert "test_a_loop_that_hangs_is_given_up" in caplog.text
        with pytest.raises(JournalError, match=f"no progress for {seconds} s"):
            await ended
    assert renewer.renewals >= 2 * seconds / lease


async def test_a_loop_that_goes_on_is_not_given_up() -> None:
    clock = LeaseClock()
    renewer = Counted()
    work = partial(renew_forever, renewer, LeasedTenure(clock, LEASE), clock, LEASE)
    async with beside_the_loop(work, clock, LEASE) as ended, asyncio.timeout(LONG):
        for clock.end_ms in range(18_000, 90_000, 18_000):
            while clock.passed_ms() < clock.end_ms:
                assert renewer.renewed.acquire(timeout=LONG)
            await asyncio.sleep(0)
        assert not ended.done()
    assert renewer.closed.is_set()
    assert clock.passed_ms() >= 72_000


async def test_the_moment_of_the_request_counts() -> None:
    """The answer may have been delayed."""
    clock = LeaseClock()
    tenure = LeasedTenure(clock, LEASE)

    class Late(Counted):
        async def renew(self) -> None:
            clock.advance(2_600)

    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def check() -> None:
        loop.call_soon(asked.set)

    renewing = asyncio.create_task(renew_forever(Late(), tenure, clock, LEASE, check))
    await asked.wait()
    assert not tenure.holds()
    renewing.cancel()
    await asyncio.wait([renewing])


async def test_what_fails_in_the_thread_is_the_loops_to_know() -> None:
    clock = LeaseClock()
    tenure, renewer = LeasedTenure(clock, LEASE), Counted(JournalFenced("taken over"))
    tenure.renewed(0)
    async with beside_the_loop(
        partial(renew_forever, renewer, tenure, clock, LEASE), clock, LEASE
    ) as ended:
        with pytest.raises(JournalFenced, match="taken over"):
            await ended
    assert not tenure.holds()
    assert renewer.closed.is_set()


def trimmed_to(mark: Mark, manifest: Manifest) -> Manifest:
    return replace(manifest, trimmed=mark)


@pytest.mark.slow
async def test_changes_of_the_manifest_from_two_loops_are_all_made() -> None:
    """All of the hundred renewals and hundred trims succeed, and neither loop mistakes the other for another leader."""
    async with led(BucketJournal(MemoryStore(), lambda: "made")) as (journal, token):
        held = journal._opened()
        assert isinstance(held, HeldManifest)
        before = held.manifest.changes
        renewer = journal.renewer(token)
        is_over = threading.Event()

        def renew() -> None:
            async def many() -> None:
                for _ in range(100):
                    await renewer.renew()

            asyncio.run(many())
            is_over.set()

        thread = threading.Thread(target=renew)
        thread.start()
        for number in range(1, 101):
            await held.change(partial(trimmed_to, Mark(number, number)))
        await asyncio.to_thread(thread.join)
        assert is_over.is_set()
        present = await load_manifest(journal._bucket)
        assert present is not None
        assert (present.trimmed, present.changes) == (Mark(100, 100), before + 200)
