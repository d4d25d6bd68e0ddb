"""Tests the single writer: order, group commit, bounds, time, restarts and shutdown."""

import asyncio
import re
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.client import ControlPlaneUnavailable, InProcessClient
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalError,
    JournalForeign,
    JournalOfAnotherVersion,
    Snapshot,
)
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.snapshots import snapshots_path
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import partition as partitions
from lacuna.controlplane.state.settings import LEASE_DURATION_MS, SESSION_GRACE_MS
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, RegisterAgent, RenewLease
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import PartitionDelta, ReadPartitions
from lacuna.controlplane.verbs.verb import Verb
from tests.controlplane.runtime.rig import (
    Rig,
    base_offset,
    commit,
    create_topic,
    created,
    heartbeat,
    join,
    leave,
    mistaken,
    open_lease,
    read,
)
from tests.doubles.clock import iterations
from tests.doubles.journal import MemoryJournal
from tests.simulation.loop import on_virtual_time


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = await Rig().start()
    yield rig
    await rig.runtime.close()


async def appended(rig: Rig) -> list[list[bytes]]:
    """Return the records in each append so far."""
    return [batch.records async for batch in rig.memory.read(0)]


async def last_record(rig: Rig) -> JournalRecord:
    return JournalRecord.FromString((await appended(rig))[-1][-1])


async def with_topic(rig: Rig) -> tuple[InProcessClient, bytes]:
    """Return a client, and the id of a topic that it created."""
    client = rig.client()
    return client, await created(client)


class Recorder:
    """The client end of a session. It keeps everything that it receives, in order, and calls `then` each time."""

    def __init__(self, then: Callable[[Sequence[Reply]], None] = lambda _: None) -> None:
        self.then = then
        self.told: list[str] = []
        self.ended: ControlPlaneUnavailable | None = None

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        self.told += [f"partition {delta.version}" for delta in partitions]
        self.told += [f"cluster {delta.version}" for delta in cluster]
        self.told += [f"reply {reply.command_id}" for reply in replies]
        self.then(replies)

    def lost(self, error: ControlPlaneUnavailable) -> None:
        self.ended = error


async def test_each_leader_tells_its_sessions_a_secret_that_is_not_journaled(rig: Rig) -> None:
    """Agents use the secret among themselves."""
    secrets = set()
    for _ in range(2):
        client, other = rig.client(), rig.client()
        await client.cluster.ready()
        await other.cluster.ready()
        secret = client.cluster.peer_secret
        assert len(secret) == 16
        assert other.cluster.peer_secret == secret
        records = b"".join(record for batch in await appended(rig) for record in batch)
        assert secret not in records + rig.runtime.serialized_state()
        secrets.add(secret)
        await rig.restart()
    assert len(secrets) == 2


async def test_a_new_journal_begins_with_the_founding(rig: Rig) -> None:
    await iterations()
    (first,) = await appended(rig)
    assert JournalRecord.FromString(first[0]).cluster_founded.cluster_id == "cluster"
    await rig.restart()
    assert rig.state.cluster_id == rig.runtime.cluster_id == "cluster"
    assert len(await appended(rig)) == 1


async def test_commands_of_iterations_in_a_row_share_an_append(rig: Rig) -> None:
    client, topic_id = await with_topic(rig)
    before = len(await appended(rig))
    calls = []
    for _ in range(3):
        calls.append(asyncio.ensure_future(client.call(commit(topic_id))))
        await asyncio.sleep(0)
    await asyncio.gather(*calls)
    assert [len(records) for records in (await appended(rig))[before:]] == [3]


async def test_records_that_arrive_while_an_append_runs_share_the_next(rig: Rig) -> None:
    client, topic_id = await with_topic(rig)
    before = len(await appended(rig))
    rig.memory.is_held = True
    calls = [asyncio.ensure_future(client.call(commit(topic_id)))]
    await iterations()
    calls += [asyncio.ensure_future(client.call(commit(topic_id))) for _ in range(9)]
    await iterations()
    rig.memory.release()
    await iterations()
    assert [call.done() for call in calls] == [True] + [False] * 9
    rig.memory.release()
    await asyncio.gather(*calls)
    assert [len(records) for records in (await appended(rig))[before:]] == [1, 9]


async def confirmed(_: int) -> None:
    """Does nothing: the tests that use it answer nothing without records."""


@on_virtual_time
async def test_clients_that_began_apart_share_slow_appends() -> None:
    """Otherwise, each would wait for the other's appends."""

    class SlowJournal(MemoryJournal):
        def append(
            self, records: Sequence[bytes], token: int, hot: Sequence[HotSegment] = ()
        ) -> asyncio.Future[int]:
            self.is_held = True
            asyncio.get_running_loop().call_later(0.04, self.release)
            return super().append(records, token, hot)

    journal = SlowJournal("cluster")
    rig = await Rig(journal, confirm=confirmed).start()
    topic_id = await created(rig.client())
    loop = asyncio.get_running_loop()

    async def commits(after: float) -> None:
        client = rig.client()
        await asyncio.sleep(after)
        for _ in range(20):
            await client.call(commit(topic_id))
            await asyncio.sleep(0.002)

    began = loop.time()
    await asyncio.gather(commits(0), commits(0.02))
    took = loop.time() - began
    appends = [batch async for batch in journal.read(0)]
    await rig.runtime.close()
    assert len(appends) <= 25
    assert took <= 25 * 0.045


@on_virtual_time
async def test_after_a_slow_append_the_next_one_waits_until_answered_clients_are_quiet() -> None:
    """Their commands arrive one after another, over more than an eighth of the append's duration."""
    journal = MemoryJournal("cluster")

    rig = await Rig(journal, confirm=confirmed).start()
    topic_id = await created(rig.client())
    loop, clients = asyncio.get_running_loop(), [rig.client() for _ in range(4)]
    journal.is_held = True
    first = [asyncio.ensure_future(each.call(commit(topic_id))) for each in clients]
    await asyncio.sleep(0.03)
    journal.is_held = False
    journal.release()
    await asyncio.gather(*first)
    ended = loop.time()
    for each in clients:
        await asyncio.sleep(0.0015)
        first.append(asyncio.ensure_future(each.call(commit(topic_id))))
    await asyncio.gather(*first)
    assert loop.time() - ended < 0.0085
    appends = [batch async for batch in journal.read(0)]
    await rig.runtime.close()
    assert [len(each.records) for each in appends][-2:] == [4, 4]


async def test_what_is_decided_in_one_iteration_shares_an_append(rig: Rig) -> None:
    """This holds across sessions."""
    for name in ("a", "b"):
        rig.runtime.open_session(Recorder()).submit([create_topic(name)])
    await iterations()
    assert [len(records) for records in await appended(rig)] == [1, 2]


async def test_deltas_and_replies_of_a_session_keep_the_order_of_decisions(rig: Rig) -> None:
    """S2, S3: a reply never overtakes the deltas that it depends on."""
    topic_id = await created(rig.client())
    recorder = Recorder()
    session = rig.runtime.open_session(recorder)
    session.subscribe([(topic_id, 0)])
    first, second, third = commit(topic_id), read(topic_id), commit(topic_id)
    for command_id, command in enumerate((first, second, third), 1):
        command.command_id = command_id
    session.submit([first, second])
    session.submit([third])
    assert recorder.told == ["cluster 1", "partition 1"]
    await iterations()
    assert recorder.told[2:] == ["partition 2", "reply 1", "reply 2", "partition 3", "reply 3"]


async def test_a_listener_that_calls_in_does_not_upset_the_order(rig: Rig) -> None:
    topic_id = await created(rig.client())
    rig.memory.is_held = True
    recorder = Recorder()
    second = rig.runtime.open_session(recorder)

    def call_in(replies: Sequence[Reply]) -> None:
        if replies and len(recorder.told) == 1:
            second.submit([heartbeat()])

    first = rig.runtime.open_session(Recorder(call_in))
    first.submit([commit(topic_id)])
    command = read(topic_id)
    command.command_id = 7
    second.submit([command])
    rig.memory.release()
    await iterations()
    assert recorder.told[1:] == ["reply 7", "reply 0"]


async def test_time_never_goes_back(rig: Rig) -> None:
    """Nor does it fall behind the time that was journaled before a restart."""
    later = rig.clock.now_ms()
    await rig.client().call(create_topic("a"))
    rig.clock.set(-60_000)
    await rig.client().call(create_topic("b"))
    assert (await last_record(rig)).now_ms == later
    await rig.restart()
    await rig.client().call(create_topic("c"))
    assert (await last_record(rig)).now_ms == later
    rig.clock.set(60_001)
    rig.clock.advance(1)
    await rig.client().call(create_topic("d"))
    assert (await last_record(rig)).now_ms == later + 2


async def test_time_of_a_snapshot_counts_too(rig: Rig) -> None:
    later = rig.clock.now_ms()
    await iterations()
    await rig.memory.store_snapshot(Snapshot(1, (rig.runtime.serialized_state(),)))
    rig.clock.set(-60_000)
    await rig.restart()
    await rig.client().call(create_topic("a"))
    assert (await last_record(rig)).now_ms == later


DAY_MS = 86_400_000


def register(rig: Rig, ahead_ms: int = 0, port: int = 9092) -> Command:
    """Return the registration of an agent whose clock is this far ahead of the control plane's."""
    agent = RegisterAgent(host="h", port=port, clock_ms=rig.clock.now_ms() + ahead_ms)
    return Command(register_agent=agent)


async def test_a_clock_that_was_wrong_for_a_while_leaves_nothing_in_the_journal(rig: Rig) -> None:
    """An agent has the correct time."""
    right = rig.clock.now_ms()
    rig.clock.set(30 * DAY_MS)
    await rig.restart()
    client = rig.client()
    await client.call(register(rig, -30 * DAY_MS))
    rig.clock.advance(30_000)
    await client.call(create_topic("a"))
    assert (await last_record(rig)).now_ms == right + 30_000
    rig.clock.set(-30 * DAY_MS)
    await rig.restart()
    await rig.client().call(create_topic("b"))
    assert (await last_record(rig)).now_ms == right + 30_000
    assert not rig.runtime.time.is_doubtful


async def test_after_a_long_outage_leases_last_as_long_as_ever(rig: Rig) -> None:
    """This also holds if the first agent registers only after the first tick, when time jumps by the whole outage."""
    client = rig.client()
    kept = (await client.call(open_lease(9_000))).lease_opened.lease_id
    rig.clock.set(30 * DAY_MS)
    await rig.restart()
    rig.runtime.tick()
    client = rig.client()
    await client.call(register(rig))
    rig.clock.advance(1)
    rig.runtime.tick()
    assert rig.runtime.now_ms() == rig.clock.now_ms()
    assert kept in rig.state.leases
    rig.clock.advance(9_001)
    rig.runtime.tick()
    assert kept not in rig.state.leases
    await client.close()


async def test_the_timer_ticks_when_the_clock_says_so(rig: Rig) -> None:
    opened = await rig.client().call(open_lease(rig.settings.tick_interval_ms // 2))
    rig.runtime.tick()
    rig.clock.advance(rig.settings.tick_interval_ms - 1)
    await iterations()
    assert (await last_record(rig)).HasField("job_lease_opened")
    rig.clock.advance(1)
    await iterations()
    assert (await last_record(rig)).leases_ended.lease_ids == [opened.lease_opened.lease_id]


async def run_for(rig: Rig, duration_ms: int) -> None:
    """Let time pass while the process runs."""
    for _ in range(duration_ms // rig.settings.tick_interval_ms):
        rig.clock.advance(rig.settings.tick_interval_ms)
        await iterations()


async def test_what_waits_in_the_sockets_is_heard_before_anything_ends(rig: Rig) -> None:
    """The process was suspended, for example by SIGSTOP or by closing the laptop's lid."""
    client = rig.client()
    lease_id = (await client.call(register(rig))).agent_registered.lease_id
    await run_for(rig, 5_000)
    rig.clock.advance(8 * 3_600_000)
    await iterations()
    reply = await client.call(Command(renew_lease=RenewLease(lease_id=lease_id)))
    assert reply.lease_renewed.error_code == ErrorCode.NONE
    await run_for(rig, LEASE_DURATION_MS - 1_000)
    assert lease_id in rig.state.leases


async def test_a_pause_gives_the_dead_its_own_length_and_no_more(rig: Rig) -> None:
    lease_id = (await rig.client().call(register(rig))).agent_registered.lease_id
    await run_for(rig, 5_000)
    rig.clock.advance(60_000)
    await iterations()
    await run_for(rig, LEASE_DURATION_MS - 6_000)
    assert lease_id in rig.state.leases
    await run_for(rig, 1_500)
    assert lease_id not in rig.state.leases


async def test_pauses_that_follow_one_another_keep_nobody_alive(rig: Rig) -> None:
    lease_id = (await rig.client().call(register(rig))).agent_registered.lease_id
    await run_for(rig, 250)
    for _ in range(LEASE_DURATION_MS // rig.settings.tick_interval_ms):
        rig.clock.advance(rig.settings.tick_interval_ms + 30_000)
        await iterations()
    assert lease_id not in rig.state.leases


async def test_too_much_that_waits_for_the_disk_holds_commands_back() -> None:
    rig = await Rig(settings=RuntimeSettings(max_held=2, max_backlog=3)).start()
    await iterations()
    client, topic_id = await with_topic(rig)
    rig.memory.is_held = True
    calls = [asyncio.ensure_future(client.call(commit(topic_id))) for _ in range(5)]
    await iterations()
    assert rig.high_watermark(topic_id) == 2
    waiting = asyncio.ensure_future(rig.runtime.room())
    with pytest.raises(ControlPlaneUnavailable, match="3 commands are already waiting"):
        await client.call(heartbeat())
    assert not waiting.done()
    rig.let_go()
    offsets = [base_offset(reply) for reply in await asyncio.gather(*calls)]
    assert offsets == list(range(5))
    await waiting
    await rig.runtime.close()


async def test_bytes_that_wait_for_the_disk_are_bounded() -> None:
    rig = await Rig(settings=RuntimeSettings(max_held_bytes=10)).start()
    client, topic_id = await with_topic(rig)
    rig.memory.is_held = True
    calls = [asyncio.ensure_future(client.call(commit(topic_id))) for _ in range(4)]
    await iterations()
    assert rig.high_watermark(topic_id) == 1
    rig.let_go()
    assert len(await asyncio.gather(*calls)) == 4
    await rig.runtime.close()


async def test_a_large_partition_is_shown_in_parts_that_leave_time_for_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading of the clock advances it by 60 ms, so each iteration of the event loop shows one part."""
    monkeypatch.setattr(partitions, "SHOWN_EXTENTS", 2)
    client, topic_id = await with_topic(rig)
    lease_id = (await client.call(open_lease())).lease_opened.lease_id
    for sequence in range(7):
        command = commit(topic_id, 0)
        command.commit_segment.segment.lease_id = lease_id
        command.commit_segment.segment.sequence = sequence
        await client.call(command)
    rig.clock.pace_ms = 60
    view = client.partition(topic_id, 0)
    session = next(
        each for each in rig.runtime._sessions if (topic_id, 0) in each.unshown | each.keys
    )
    seen = []
    while not view.is_current:
        seen.append(session.older.get((topic_id, 0)))
        await asyncio.sleep(0)
    assert len({each for each in seen if each}) >= 3
    assert list(view.extents.base_offsets) == list(
        rig.state.partitions[topic_id, 0].extents.base_offsets
    )
    assert not session.older


async def test_many_commands_and_subscriptions_leave_time_for_others(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Each reading of the clock advances it by 30 ms, so each iteration of the event loop handles at most two items."""
    client = rig.client()
    topic_id = await created(client, "a", 3)
    recorder = Recorder()
    session = rig.runtime.open_session(recorder)
    await iterations()
    recorder.told.clear()
    rig.clock.pace_ms = 30
    session.submit(
        [Command(command_id=number, read_partitions=ReadPartitions()) for number in range(4)]
    )
    session.subscribe([(topic_id, index) for index in range(3)])
    assert recorder.told == ["reply 0"]
    session.unsubscribe([(topic_id, 1)])
    shown = []
    while len(recorder.told) < 6:
        before = len(recorder.told)
        await asyncio.sleep(0)
        shown.append(len(recorder.told) - before)
    assert max(shown) == 2
    assert sorted(recorder.told, key=lambda told: told[0]) == [
        "partition 1",
        "partition 1",
        *(f"reply {number}" for number in range(4)),
    ]
    assert rig.runtime.load().longest_step_ms == 60
    rig.clock.pace_ms = 600
    session.submit([Command(read_partitions=ReadPartitions())])
    await iterations()
    assert "read_partitions took 1200 ms, during which nothing else was decided; " in caplog.text
    rig.runtime.tick()
    caplog.clear()
    session.submit([Command(read_partitions=ReadPartitions())])
    await iterations()
    assert "so this machine has too little CPU or memory" in caplog.text


async def test_the_backlog_of_a_lost_session_is_dropped() -> None:
    rig = await Rig(settings=RuntimeSettings(max_held=1)).start()
    await iterations()
    keeper = rig.client()
    topic_id = await created(keeper)
    rig.memory.is_held = True
    session = rig.runtime.open_session(Recorder())
    session.submit([commit(topic_id)])
    session.submit([commit(topic_id)])
    session.close()
    session.close()
    kept = asyncio.ensure_future(keeper.call(read(topic_id)))
    await iterations()
    rig.let_go()
    assert (await kept).partitions_read.partitions[0].high_watermark == 1
    await rig.runtime.close()


async def test_subscriptions_of_a_session_are_bounded() -> None:
    rig = await Rig(settings=RuntimeSettings(max_subscriptions=1)).start()
    session = rig.runtime.open_session(Recorder())
    session.subscribe([(b"a" * 16, 0)])
    session.subscribe([(b"a" * 16, 0)])
    with pytest.raises(ControlPlaneUnavailable, match="1 partitions"):
        session.subscribe([(b"b" * 16, 0)])
    session.unsubscribe([(b"c" * 16, 0)])
    session.unsubscribe([(b"a" * 16, 0)])
    assert not rig.state.watched
    await rig.runtime.close()


@pytest.mark.parametrize("how", ["command", "tick"])
async def test_a_mistake_of_ours_stops_the_process(
    rig: Rig, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = rig.client()
    await client.cluster.ready()
    if how == "tick":
        monkeypatch.setattr(machine, "tick", mistaken)
        rig.runtime.tick()
    else:
        monkeypatch.setitem(machine.VERBS, "heartbeat", Verb(mistaken))
        with pytest.raises(ControlPlaneUnavailable, match="a mistake of ours"):
            await client.call(heartbeat())
    assert [str(error) for error in rig.fatal] == ["a mistake of ours"]
    with pytest.raises(ControlPlaneUnavailable, match="a mistake of ours"):
        await client.call(heartbeat())
    with pytest.raises(ControlPlaneUnavailable, match="a mistake of ours"):
        rig.client()
    with pytest.raises(ControlPlaneUnavailable, match="a mistake of ours"):
        rig.runtime.tick()


async def test_a_journal_that_refuses_an_append_stops_the_process(rig: Rig) -> None:
    """Fencing: another writer has taken over the journal."""
    client = rig.client()
    await client.cluster.ready()
    await iterations()
    await rig.memory.close()
    await rig.memory.open(None)
    with pytest.raises(ControlPlaneUnavailable, match="taken this journal over"):
        await client.call(create_topic("a"))
    assert len(rig.fatal) == 1


async def test_what_fails_before_the_append_begins_stops_the_process(rig: Rig) -> None:
    client = rig.client()
    await client.cluster.ready()
    await iterations()

    def append(
        records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        raise JournalError("the journal is closed")

    rig.memory.append = append  # type: ignore[method-assign]
    with pytest.raises(ControlPlaneUnavailable, match="journal is closed"):
        await client.call(create_topic("a"))


async def test_it_does_not_serve_before_it_has_started() -> None:
    rig = Rig()
    with pytest.raises(ControlPlaneUnavailable, match="not started"):
        rig.client()


async def test_another_clusters_journal_is_refused(rig: Rig) -> None:
    await rig.runtime.close()
    stranger = Rig(journal=rig.memory)
    with pytest.raises(JournalForeign):
        await stranger.runtime.start("elsewhere")


async def test_a_clean_stop_answers_what_was_decided(rig: Rig) -> None:
    client, topic_id = await with_topic(rig)
    parked = asyncio.ensure_future(client.call(join()))
    rig.memory.is_held = True
    calls = [asyncio.ensure_future(client.call(commit(topic_id))) for _ in range(3)]
    await iterations()
    closing = asyncio.ensure_future(rig.runtime.close())
    await iterations()
    with pytest.raises(ControlPlaneUnavailable, match="stopping"):
        await client.call(leave())
    assert not closing.done()
    rig.let_go()
    await closing
    assert [base_offset(reply) for reply in await asyncio.gather(*calls)] == [0, 1, 2]
    with pytest.raises(ControlPlaneUnavailable, match="was stopped"):
        await parked
    await rig.runtime.close()


async def test_what_was_not_durable_is_gone_after_a_crash(rig: Rig) -> None:
    """No client has received an answer based on it (S2)."""
    client, topic_id = await with_topic(rig)
    await client.call(commit(topic_id))
    before = rig.runtime.serialized_state()
    rig.memory.is_held = True
    lost = asyncio.ensure_future(client.call(commit(topic_id)))
    await iterations()
    assert rig.runtime.serialized_state() != before
    rig.memory.release(OSError("crash"))
    await asyncio.gather(lost, return_exceptions=True)
    rig.memory.is_held = False
    await rig.restart()
    assert rig.runtime.serialized_state() == before


class Maker:
    """Takes snapshots in this process. `failure` makes the next one fail."""

    def __init__(self) -> None:
        self.rig: Rig | None = None
        self.failure: JournalError | None = None
        self.positions: list[int] = []
        self.made = asyncio.Event()
        self.is_closed = False

    async def make(self, position: int) -> None:
        assert self.rig is not None
        self.positions.append(position)
        self.made.set()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        runtime = self.rig.runtime
        await self.rig.journal.store_snapshot(
            Snapshot(runtime._position, (runtime.serialized_state(),))
        )

    async def close(self) -> None:
        self.is_closed = True


SNAPSHOTS = pytest.mark.parametrize(
    ("settings", "appends"),
    [
        (RuntimeSettings(snapshot_records=5), None),
        (RuntimeSettings(snapshot_bytes=150), None),
        (RuntimeSettings(), 5),
    ],
    ids=["records", "bytes", "appends"],
)


@SNAPSHOTS
async def test_snapshots_bound_what_a_restart_replays(
    settings: RuntimeSettings, appends: int | None
) -> None:
    maker = Maker()
    rig = Rig(settings=settings, snapshotter=maker, snapshot_appends=appends)
    maker.rig = await rig.start()
    client, topic_id = await with_topic(rig)
    maker.failure = JournalError("no room on the disk")
    for _ in range(30):
        await client.call(commit(topic_id))
    await iterations()
    assert len(maker.positions) >= 4
    assert len(await appended(rig)) <= 8
    before = rig.runtime.serialized_state()
    await rig.restart()
    assert maker.is_closed
    assert rig.runtime.serialized_state() == before
    assert (await rig.client().call(commit(topic_id))).HasField("segment_committed")
    await rig.runtime.close()


@SNAPSHOTS
async def test_a_long_replay_asks_for_a_snapshot_at_once(
    settings: RuntimeSettings, appends: int | None
) -> None:
    first = await Rig().start()
    client = first.client()
    for name in "abcdef":
        await client.call(create_topic(name))
    await first.runtime.close()
    maker = Maker()
    rig = Rig(journal=first.memory, settings=settings, snapshotter=maker, snapshot_appends=appends)
    maker.rig = await rig.start()
    await maker.made.wait()
    assert maker.positions == [7]
    await rig.runtime.close()


async def test_a_snapshot_under_way_does_not_hold_the_end_up() -> None:
    class Slow(Maker):
        async def make(self, position: int) -> None:
            self.made.set()
            await asyncio.Event().wait()

    maker = Slow()
    settings = RuntimeSettings(snapshot_records=1)
    rig = maker.rig = await Rig(settings=settings, snapshotter=maker).start()
    await maker.made.wait()
    await rig.runtime.close()
    assert maker.is_closed


async def test_a_record_that_does_not_follow_stops_the_start(rig: Rig) -> None:
    """The journal is released, so the next start fails with the same message."""
    opened_again = Rig(journal=rig.memory)
    await rig.runtime.close()
    opened = await rig.memory.open(None)
    await rig.memory.append([b"\xff not a record"], opened.fencing_token)
    await rig.memory.close()
    for _ in range(2):
        with pytest.raises(JournalCorrupt, match="position 2 does not fit the records before it"):
            await opened_again.runtime.start()


async def test_a_record_of_a_later_version_is_no_damage(rig: Rig) -> None:
    """The message must not suggest giving up data."""
    opened_again = Rig(journal=rig.memory)
    await rig.runtime.close()
    opened = await rig.memory.open(None)
    await rig.memory.append([JournalRecord(now_ms=1).SerializeToString()], opened.fencing_token)
    await rig.memory.close()
    with pytest.raises(JournalOfAnotherVersion, match="position 2: install the version that wrote"):
        await opened_again.runtime.start()


async def test_a_snapshot_that_is_ahead_of_its_journal_is_refused(rig: Rig) -> None:
    """Restoring only one of the two files from a backup causes this. Positions would be assigned twice."""
    await iterations()
    await rig.memory.store_snapshot(Snapshot(9, (rig.runtime.serialized_state(),)))
    with pytest.raises(JournalCorrupt, match="position 9 and the journal at 1; restore both"):
        await rig.restart()


async def test_a_client_end_that_raises_stops_the_process(rig: Rig) -> None:
    def fail(_: Sequence[Reply]) -> None:
        raise ValueError("a delta that cannot be")

    bystander = Recorder()
    rig.runtime.open_session(bystander)
    rig.runtime.open_session(Recorder(fail))
    await iterations()
    assert [str(error) for error in rig.fatal] == ["a delta that cannot be"]
    assert "a delta that cannot be" in str(bystander.ended)


async def test_replies_of_sessions_that_are_gone_are_dropped(rig: Rig) -> None:
    recorder = Recorder()
    session = rig.runtime.open_session(recorder)
    session.submit([create_topic("a")])
    session.close()
    await iterations()
    assert not any(told.startswith("reply") for told in recorder.told)


async def test_a_stop_ends_the_timer_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await iterations()
    monkeypatch.setattr(machine, "tick", mistaken)
    rig.clock.advance(rig.settings.tick_interval_ms)
    await iterations()
    rig.clock.advance(rig.settings.tick_interval_ms)
    await iterations()
    assert len(rig.fatal) == 1


async def test_an_abort_answers_nothing_more(rig: Rig) -> None:
    """An abort is like a crash: a restart continues from what the journal contains."""
    client, topic_id = await with_topic(rig)
    rig.memory.is_held = True
    call = asyncio.ensure_future(client.call(commit(topic_id)))
    await iterations()
    aborting = asyncio.ensure_future(rig.runtime.abort())
    with pytest.raises(ControlPlaneUnavailable, match="was killed"):
        await call
    rig.memory.release()
    rig.memory.is_held = False
    await aborting
    await rig.runtime.abort()
    await rig.restart()
    assert rig.high_watermark(topic_id) == 1


async def test_the_machine_hears_over_which_session_a_command_came_and_when_it_ended(
    rig: Rig,
) -> None:
    """Session numbers are never reused within a run, and volatile events have no records."""
    one, other = rig.client(), rig.client()
    for port, client in enumerate((one, other), 1):
        await client.call(Command(register_agent=RegisterAgent(host="a", port=port)))
    assert rig.state.lease_sessions == {1: {1}, 2: {2}}
    await one.close()
    await one.close()
    assert rig.state.lease_sessions == {2: {2}}
    await rig.client().call(Command(register_agent=RegisterAgent(host="a", port=3)))
    assert rig.state.lease_sessions == {2: {2}, 3: {3}}
    before = len(await appended(rig))
    rig.clock.advance(SESSION_GRACE_MS)
    rig.runtime.tick()
    assert other.cluster.hidden_lease_ids == {1}
    assert len(await appended(rig)) == before


def rig_on(path: str) -> Rig:
    journal = SqliteJournal(path, lambda: "cluster")
    return Rig(journal, RuntimeSettings(snapshot_records=40), SnapshotProcess(journal))


def rows(path: str, query: str) -> list[tuple[int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.slow
async def test_a_snapshot_whose_process_cannot_start_is_told_and_another_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "control.db")
    rig = await rig_on(path).start()
    client, topic_id = await with_topic(rig)
    async with asyncio.timeout(60):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(tmp_path / "no-python"))
            while not caplog.records:
                await client.call(commit(topic_id))
                await asyncio.sleep(0)
        while not rows(snapshots_path(path), "SELECT position FROM snapshots"):
            await client.call(commit(topic_id))
            await asyncio.sleep(0.01)
    assert re.search(
        "the next attempt follows after 40 records .*/no-python could not be started as the snapshot "
        "process: .*No such file",
        caplog.records[0].getMessage(),
    )
    await rig.runtime.close()


@pytest.mark.slow
async def test_snapshots_of_another_process_bound_journal_and_restart(tmp_path: Path) -> None:
    """The runtime requests a snapshot, a process writes it, the journal is trimmed, and a restart loads it."""
    path = str(tmp_path / "control.db")
    rig = await rig_on(path).start()
    client, topic_id = await with_topic(rig)
    positions: set[int] = set()
    trimmed = 0
    while len(positions) < 3 or not trimmed:
        for _ in range(20):
            await client.call(commit(topic_id))
        await asyncio.sleep(0.01)
        trimmed = rows(path, "SELECT value FROM meta WHERE key='trimmed'")[0][0]
        if Path(snapshots_path(path)).exists():
            found = rows(snapshots_path(path), "SELECT DISTINCT position FROM snapshots")
            assert all(trimmed <= position for (position,) in found)
            positions |= {position for (position,) in found}
    before = rig.runtime.serialized_state()
    await rig.restart()
    assert rig.runtime.serialized_state() == before
    await rig.runtime.close()
