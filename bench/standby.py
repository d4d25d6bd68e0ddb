"""How soon a standby with a large state is ready, and how soon it becomes the leader after the leader has been killed.

Every extent is alone in its object, which is the most expensive case. The journal, in PostgreSQL or in moto's bucket,
starts with a snapshot, followed by `LATER` records of single-batch transactions, with `TOGETHER` records in each
append. `LATER` is slightly less than the number that triggers another snapshot. The times are measured from the start
of the standby's process and from the leader's end. A takeover includes the lease of `LEASE_SECONDS`.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import BenchError
from bench.counted_s3 import use_credentials
from bench.figures import Better, Figure, Row, Run
from bench.journal_targets import POSTGRESQL, postgresql
from bench.lacuna import CONTROL_READY
from bench.meter import cpu_seconds
from bench.plane import APPEND_RECORDS, Plane, small_transactions
from bench.processes import Process
from bench.rounds import Bench
from lacuna.controlplane import machine
from lacuna.controlplane.journal.journal import Journal, Snapshot
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.shared_service import ask_status
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus
from lacuna.logstore.objects import bucket_url
from lacuna.operating.journals import SharedJournalOptions, journal_source, journal_target
from lacuna.operating.moto import MotoServer
from lacuna.operating.stores import open_checked

BUCKET: Final = "bucket"
LEASE_SECONDS: Final = 3.0
PARTITIONS: Final = 4
LATER: Final = 45_000
TOGETHER: Final = 10
AMOUNTS = {"smoke": 2_000, "quick": 50_000, "full": 1_000_000}
READY = Figure("ready s", Better.LESS)
READY_CPU = Figure("ready CPU s", Better.LESS)
TAKEOVER = Figure("takeover s", Better.LESS)
WAIT_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.02


def work_of(extents: int, later: int) -> str:
    return f"standby, {extents:,} extents" + (f", {later:,} records later" if later else "")


@dataclass(frozen=True, slots=True)
class Place:
    """A journal's location, as control planes accept it."""

    label: str
    url: str
    store_url: str

    @property
    def arguments(self) -> Sequence[str]:
        return [f"--journal={self.url}", *([f"--store={self.store_url}"] if self.store_url else [])]


def standby(bench: Bench) -> Iterator[Row]:
    """Yields two rows for each place: one with only a snapshot, and one with later records as well."""
    use_credentials()
    extents = AMOUNTS[bench.size.name]
    later = LATER * extents // AMOUNTS["full"]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lacuna-bench-"))
        path = Path(folder) / "journal.db"
        appends = asyncio.run(_write(path, extents, later))
        for places in _pairs_of_places(stack):
            for place, count in zip(places, (0, later), strict=True):
                asyncio.run(_copy(path, place))
                if count:
                    asyncio.run(_append(place, appends))
                yield Row(work_of(extents, count), place.label, [_measure(place)])


def _pairs_of_places(stack: ExitStack) -> Iterator[tuple[Place, Place]]:
    """Yields two places of each kind, because a control plane writes to its journal once it is the leader."""
    if server := stack.enter_context(postgresql()):
        one, other = (
            Place(POSTGRESQL, server.make_database(name), "") for name in ("one", "other")
        )
        yield one, other
    endpoint = stack.enter_context(MotoServer()).endpoint
    urls = [bucket_url(f"standby/{name}", endpoint=endpoint) for name in ("one", "other")]
    open_checked(urls[0], create_bucket=True).close()
    yield Place(BUCKET, "bucket", urls[0]), Place(BUCKET, "bucket", urls[1])


async def _write(path: Path, extents: int, later: int) -> list[list[bytes]]:
    """Writes a journal with a snapshot of this many extents. Returns the records to append to a copy of it."""
    journal = SqliteJournal(str(path), lambda: "bench")
    opened = await journal.open(None)
    plane = Plane(journal=True)
    topic_id = plane.create(PARTITIONS)
    for _ in small_transactions(plane, topic_id, PARTITIONS, extents // 2, one_in=2):
        if len(plane.journal) >= APPEND_RECORDS:
            await journal.append(plane.take_journal(), opened.fencing_token)
    plane.create(1, "last")
    position = await journal.append(plane.take_journal(), opened.fencing_token)
    await journal.store_snapshot(Snapshot(position, machine.snapshot_parts(plane.state)))
    await journal.close()
    appends: list[list[bytes]] = []
    records = 0
    for number, _ in enumerate(small_transactions(plane, topic_id, PARTITIONS, later), 1):
        if number % TOGETHER == 0:
            appends.append(plane.take_journal())
            records += len(appends[-1])
        if records >= later:
            break
    return appends


async def _copy(path: Path, place: Place) -> None:
    with (
        journal_source(f"sqlite:{path}", "", LEASE_SECONDS) as source,
        journal_target(place.url, place.store_url) as target,
    ):
        await copy_journal(source, target)


async def _append(place: Place, appends: list[list[bytes]]) -> None:
    """Appends to a journal without a leader."""
    with SharedJournalOptions(place.url, place.store_url, LEASE_SECONDS).opened() as make:
        journal: Journal = make("")
        opened = await journal.open(None)
        for records in appends:
            await journal.append(records, opened.fencing_token)
        await journal.close()


def _measure(place: Place) -> Run:
    leader = Process(["controlplane", "--listen=127.0.0.1:0", *place.arguments], CONTROL_READY)
    try:
        led = _wait(leader, lambda status: status.is_leader)
        started = time.perf_counter()
        waiting = Process(["controlplane", "--listen=127.0.0.1:0", *place.arguments], CONTROL_READY)
        try:
            _wait(waiting, lambda status: _position(status, waiting.value) >= led.position)
            ready, cpu = time.perf_counter() - started, cpu_seconds([waiting.pid])
            killed = time.perf_counter()
            leader.kill()
            _wait(waiting, lambda status: status.is_leader)
            return {READY: ready, READY_CPU: cpu, TAKEOVER: time.perf_counter() - killed}
        finally:
            waiting.stop()
    finally:
        leader.kill()


def _position(status: ControlPlaneStatus, address: str) -> int:
    return next((each.position for each in status.standbys if each.address == address), 0)


def _wait(process: Process, is_so: Callable[[ControlPlaneStatus], bool]) -> ControlPlaneStatus:
    """Queries a control plane until `is_so` accepts its status. Raises BenchError."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        status = asyncio.run(ask_status(process.value))
        if status is not None and is_so(status):
            return status
        time.sleep(LOOK_SECONDS)
    raise BenchError(f"the control plane is not in the expected state: {status}\n{process.said}")
