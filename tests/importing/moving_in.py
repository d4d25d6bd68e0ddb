"""Imports from Apache Kafka under load and with faults, and compares every offset and group.

    python -m tests.importing.moving_in --version 4.4 --seconds 30
    python -m tests.importing.moving_in --version 3.9 --kills 20 --restarts 4 --takeovers 3

Spread over the run, the importer is killed with SIGKILL, the source's broker is ended (with SIGTERM and SIGKILL
alternately) and restarted, and the leading control plane is killed. Then the load stops, an importer catches up, and
every offset of every partition is compared under both isolation levels, as well as the committed offsets of each group.
The program prints what it compared. Its exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lacuna.importing.cluster import Kafka
from lacuna.importing.transactions import HangingTransaction, source_transactions
from lacuna.operating.kafka import Agents
from tests.compat.clients import KAFKAS
from tests.faults.processes import Deployment, end_by_exception
from tests.faults.takeovers import await_standby, deployment
from tests.forked import LACUNA, Started, start_process
from tests.golden.broker import Broker
from tests.importing.sources import (
    COMPACTED,
    SECONDS,
    TOPICS,
    Row,
    SourceLoad,
    apache_kafka,
    created,
    end_hanging,
    group_offsets,
    places,
    read_all,
)

LEVELS: Final = ("read_committed", "read_uncommitted")
#: Kafka 3.9 has KIP-848 groups only as a preview, which librdkafka does not support.
PROTOCOLS: Final = {
    "3.9": ["classic"],
    "4.1": ["classic", "consumer"],
    "4.4": ["classic", "consumer"],
}
#: An importer ends with such a line if one of the clusters is or becomes unavailable while it starts.
_AWAY: Final = re.compile(
    r"the source(?:'s broker \d+)? (?:does not answer at |at \S+: )|no control plane answered at "
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the load runs, its pause between batches, and how often each fault occurs during it."""

    seconds: float
    pause: float = 0.05
    kills: int = 0
    restarts: int = 0
    takeovers: int = 0
    journal: str = "bucket"
    lease_ms: int = 6_000
    keep_aborted: bool = False

    @property
    def options(self) -> list[str]:
        """The importer's options."""
        return ["--keep-aborted"] if self.keep_aborted else []


class Move:
    """A source under load, a deployment, and the importer between them, whose output goes to a log."""

    def __init__(
        self,
        source: Broker,
        target: Deployment,
        load: SourceLoad,
        log: Path,
        options: Sequence[str],
    ) -> None:
        self.source = source
        self.target = target
        self.load = load
        self._log = log
        self._options = options
        #: The source's transactions that hung at the end and were ended manually.
        self.hung: list[HangingTransaction] = []
        self._importer = self._started()

    @property
    def said(self) -> str:
        """Everything that the importers have printed."""
        return self._log.read_text()

    def _started(self, *options: str) -> Started:
        places = [f"--from={self.source.bootstrap}", f"--bootstrap={self.target.bootstrap}"]
        with self._log.open("ab") as log:
            return start_process(
                [*LACUNA, "import", "run", *places, *self._options, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill_importer(self) -> None:
        """Kill the importer as soon as it has copied something new, and start another."""
        self.await_more()
        self._importer.send_signal(signal.SIGKILL)
        code = self._importer.wait(SECONDS)
        assert code == -signal.SIGKILL, f"it ended before:\n{self.said}"
        self._importer = self._started()

    def restart_source(self, number: signal.Signals) -> None:
        """End the source's broker, and start it again."""
        self.source.end(number)
        self.source.start()

    def take_over(self) -> None:
        """Kill the leading control plane, wait until the other one leads, and restart the killed one."""
        leader = self.target.leader()
        await_standby(leader)
        leader.kill()
        self.target.leader()
        leader.start()

    def await_more(self) -> None:
        """Wait until the copy has grown."""
        deadline = time.monotonic() + 3 * SECONDS
        before = self._copied()
        while self._copied() <= before:
            self._keep_importing()
            assert time.monotonic() < deadline, f"nothing more is copied:\n{self.said}"

    def _keep_importing(self) -> None:
        """Restart the importer, as a supervisor would, if it ended because the source was away."""
        if (code := self._importer.poll()) is not None:
            is_expected = code == 1 and _AWAY.search(self.said.splitlines()[-1])
            assert is_expected, f"the importer ended with {code}:\n{self.said}"
            self._importer = self._started()

    def _copied(self) -> int:
        return sum(
            end for _, end in watermarks(self.target.bootstrap, "tx", TOPICS["tx"][0]).values()
        )

    def catch_up(self) -> None:
        """End the importer, and let another one copy the rest.

        A producer that had to be restarted may have left a transaction open, which the source ends once it times out. A
        source that was killed may also have forgotten a transaction, which then hangs (this occasionally happens with
        Kafka 4.4.0).
        """
        asyncio.run(self._await_ends())
        self.hung = asyncio.run(end_hanging(self.source.bootstrap, places()))
        self._importer.send_signal(signal.SIGINT)
        code = self._importer.wait(SECONDS)
        assert code == 130, f"the importer ended with {code}:\n{self.said}"
        self._importer = self._started("--once")
        assert self._importer.wait(10 * SECONDS) == 0, self.said

    def verified(self, *options: str) -> list[str]:
        """Return the differences that `lacuna import verify` finds."""
        places = [f"--from={self.source.bootstrap}", f"--bootstrap={self.target.bootstrap}"]
        command = [*LACUNA, "import", "verify", *places, *options]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        return done.stderr.splitlines() if done.returncode else []

    async def _await_ends(self) -> None:
        async with Kafka(Agents(self.source.bootstrap), "the source") as source:
            async with asyncio.timeout(3 * SECONDS):
                while any(each.partitions for each in await source_transactions(source)):
                    await asyncio.sleep(0.2)

    def discard(self) -> None:
        """Kill the importer, whatever its state."""
        self._importer.kill()
        self._importer.wait()


def watermarks(bootstrap: str, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Return the first and last offset of each partition, or nothing for a topic that does not exist."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watch", "log_level": 0})
    found = {}
    try:
        for index in range(partitions):
            with suppress(KafkaException):
                place = TopicPartition(topic, index)
                found[index] = consumer.get_watermark_offsets(place, SECONDS)
    finally:
        consumer.close()
    return found


@contextmanager
def moving(folder: Path, version: str, plan: Plan) -> Iterator[Move]:
    """Start a source with load, and a deployment that copies it."""
    extra = "group.coordinator.rebalance.protocols=classic,consumer\n"
    with ExitStack() as stack:
        source = stack.enter_context(apache_kafka(folder / "kafka", version, extra))
        for name, (partitions, configs) in TOPICS.items():
            created(source.bootstrap, name, partitions, **configs)
        target = stack.enter_context(
            deployment(plan.journal, folder, f"--lease-ms={plan.lease_ms}")
        )
        load = SourceLoad(source.bootstrap, PROTOCOLS[version], plan.pause)
        stack.callback(load.stop)
        move = Move(source, target, load, folder / "importer.log", plan.options)
        stack.callback(move.discard)
        yield move


def strike(move: Move, plan: Plan) -> None:
    """Cause the faults, spread over the plan's duration."""
    ends = itertools.cycle((signal.SIGTERM, signal.SIGKILL))
    faults: list[tuple[float, Callable[[], None]]] = []
    for count, fault in (
        (plan.kills, move.kill_importer),
        (plan.restarts, lambda: move.restart_source(next(ends))),
        (plan.takeovers, move.take_over),
    ):
        faults += [((number + 0.5) / count, fault) for number in range(count)]
    began = time.monotonic()
    for share, fault in sorted(faults, key=lambda each: each[0]):
        time.sleep(max(0.0, began + share * plan.seconds - time.monotonic()))
        fault()
    time.sleep(max(0.0, began + plan.seconds - time.monotonic()))


@dataclass(slots=True)
class Findings:
    """What was compared, and how the copy differs."""

    records: int = 0
    partitions: int = 0
    offsets: int = 0
    hung: int = 0
    differences: list[str] = field(default_factory=list)


def compare(
    source: str, target: str, groups: Sequence[str], *, keep_aborted: bool = False
) -> Findings:
    """Compare every offset in every partition with a librdkafka consumer, and the offsets of groups.

    A copy without aborted records must show consumers at both isolation levels what the source shows at read_committed.
    """
    found = Findings()
    sides = (target, source)
    for level in LEVELS:
        there = read_all(source, places(), level if keep_aborted else "read_committed")
        here = read_all(target, places(), level)
        for place, (end, wanted) in there.items():
            what = f"{place[0]}[{place[1]}] {level}"
            same_end, rows = here[place]
            if same_end != end:
                # A consumer's position may lag behind the end of the log.
                bounds = [watermarks(each, place[0], place[1] + 1)[place[1]] for each in sides]
                found.differences.append(
                    f"{what} ends at {same_end} and not at {end}; here it has {bounds[0]}, there {bounds[1]}"
                )
            if place[0] == COMPACTED:
                found.differences += compacted_differences(what, wanted, rows)
            elif rows != wanted:
                other = next(pair for pair in zip_longest(wanted, rows) if pair[0] != pair[1])
                found.differences.append(f"{what}: {other[0]} became {other[1]}")
    found.partitions = len(there)
    found.records = sum(len(rows) for _, rows in there.values())
    for group in groups:
        offsets = group_offsets(source, group)
        found.offsets += len(offsets)
        if offsets != (copied := group_offsets(target, group)):
            found.differences.append(f"group {group}: {offsets} became {copied}")
    return found


def compacted_differences(what: str, wanted: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    """Compare a topic that each side compacts at different times: any record that one side lacks has been replaced by a
    later one.
    """
    there, here = {row[0]: row for row in wanted}, {row[0]: row for row in rows}
    for offset in there.keys() & here.keys():
        if there[offset] != here[offset]:
            yield f"{what}: {there[offset]} became {here[offset]}"
    newest = [{row[2]: row for row in side if row[3] is not None} for side in (wanted, rows)]
    last = [{row[2]: row[0] for row in side} for side in (wanted, rows)]
    for key in newest[0].keys() | newest[1].keys():
        # A key whose newest record is a tombstone may be gone from either side.
        values = [
            side[key] if key in side and side[key][0] == ends[key] else None
            for side, ends in zip(newest, last, strict=True)
        ]
        if values[0] != values[1]:
            yield f"{what}: the newest record of {key!r} is {values[0]} there and {values[1]} here"


def run(folder: Path, version: str, plan: Plan) -> tuple[Findings, SourceLoad, str]:
    """Copy under load and faults, and compare the copy once it has caught up."""
    with moving(folder, version, plan) as move:
        move.await_more()
        strike(move, plan)
        move.load.stop()
        move.catch_up()
        found = compare(
            move.source.bootstrap,
            move.target.bootstrap,
            move.load.groups,
            keep_aborted=plan.keep_aborted,
        )
        found.hung = len(move.hung)
        found.differences += move.verified(*plan.options)
        return found, move.load, move.said


def main() -> int:
    """Run the program, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.importing.moving_in")
    parser.add_argument("--version", choices=list(PROTOCOLS), default="4.4")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pause", type=float, default=0.05, help="of a producer, in seconds")
    parser.add_argument("--kills", type=int, default=0, help="of the importer")
    parser.add_argument("--restarts", type=int, default=0, help="of the source's broker")
    parser.add_argument("--takeovers", type=int, default=0, help="of the control plane")
    parser.add_argument("--journal", choices=["postgresql", "bucket"], default="bucket")
    parser.add_argument("--lease-ms", type=int, default=6_000, help="of the control planes")
    parser.add_argument("--keep-aborted", action="store_true", help="copy aborted records, too")
    given = parser.parse_args()
    end_by_exception()
    # A shell makes its background jobs ignore SIGINT, and their children inherit that. SIGINT ends importers.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plan = Plan(**{each.name: getattr(given, each.name) for each in fields(Plan)})
    with tempfile.TemporaryDirectory(prefix="lacuna-moving-") as folder:
        found, load, said = run(Path(folder), given.version, plan)
    sys.stdout.write(
        f"{said}Apache Kafka {KAFKAS[given.version]}: {load.sent} records sent, {load.committed} transactions "
        f"committed and {load.aborted} aborted, {found.hung} hung, {found.partitions} partitions with {found.records} "
        f"records and {found.offsets} offsets of {len(load.groups)} groups compared: "
        f"{len(found.differences)} differences\n"
    )
    for line in [*found.differences, *load.failures]:
        sys.stdout.write(f"{line}\n")
    return 1 if found.differences or load.failures else 0


if __name__ == "__main__":
    sys.exit(main())
