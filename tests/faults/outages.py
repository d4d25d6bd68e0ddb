"""Stops all control planes for a while, and checks the connected clients from three libraries.

    python -m tests.faults.outages --journal postgresql --seconds 60

Producers write transactions, members follow them in groups with both protocols, and readers have read the beginning of
a backlog. While no control plane answers, the readers read the rest. Prints the observations. The exit code is 1 if
there are violations.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.state.settings import LEASE_DURATION_MS
from tests.clients.librd import producer, transaction

from .checked_load import PARTITIONS, Load
from .foreign import NEEDS, Follower, missing
from .processes import Deployment, end_by_exception
from .takeovers import PAUSE_SECONDS, deployment, say

#: (client, protocol) of each member; each has a group of its own.
MEMBERS: Final = (
    ("librdkafka", "classic"),
    ("librdkafka", "consumer"),
    ("java", "classic"),
    ("java", "consumer"),
    ("franz-go", "classic"),
)
READERS: Final = ("librdkafka", *NEEDS)
BACKLOG_PARTITIONS: Final = 2
TRANSACTIONS: Final = 150
RECORDS: Final = 10
#: After so many seconds agents do not trust any more what they know.
UNTRUSTED: Final = LEASE_DURATION_MS / 1000 + 3
SECONDS: Final = 60.0


class Backlog:
    """Transactions, every third of which is aborted, and readers that have read the beginning."""

    def __init__(self, bootstrap: str) -> None:
        self.values: dict[int, list[bytes]] = {}
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("backlog", BACKLOG_PARTITIONS)])["backlog"].result(SECONDS)
        for partition in range(BACKLOG_PARTITIONS):
            self._write(bootstrap, partition)
        self.readers = [
            Follower(kind, bootstrap, "backlog", BACKLOG_PARTITIONS, "", "") for kind in READERS
        ]

    def _write(self, bootstrap: str, partition: int) -> None:
        who = producer(bootstrap, f"backlog-{partition}")
        written = self.values[partition] = []
        for number in range(TRANSACTIONS):
            values = [f"{partition} {number} {at} {'x' * 200}".encode() for at in range(RECORDS)]
            is_committed = number % 3 != 1
            transaction(who, "backlog", values, commit=is_committed, partition=partition)
            if is_committed:
                written += values

    def start(self) -> None:
        """Start the readers, and wait until each has read part of every partition."""
        for reader in self.readers:
            reader.start()
            while not all(reader.rows.values()):
                reader.await_more(1)

    def await_all(self, deadline: float) -> None:
        """Wait until each reader has read everything, and compare what it read with the written records."""
        count = sum(map(len, self.values.values()))
        for reader in self.readers:
            left = deadline - time.monotonic()
            is_there = reader.progress.wait_for(count, max(left, 0))
            assert reader.fatal == []
            assert is_there, (
                f"{reader.kind} has {reader.progress.count} of {count}:\n{reader.errors}"
            )
            read = {p: [value for _, value in rows] for p, rows in reader.rows.items()}
            assert read == self.values, reader.kind


def connections(pid: int, ports: set[int]) -> set[int]:
    """Return the local ports of a process's connections to these ports on this machine."""
    inodes = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{number}")))
        except FileNotFoundError:
            continue  # closed meanwhile
    found = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            local, remote = (int(fields[at].rpartition(":")[2], 16) for at in (1, 2))
            if fields[9] in inodes and fields[3] == "01" and remote in ports:
                found.add(local)
    return found


@contextmanager
def away(cluster: Deployment) -> Iterator[None]:
    """Kill all control planes, and restart them after the body."""
    for control in cluster.controls:
        control.kill()
    yield
    for control in cluster.controls:
        control.start()


class Outage:
    """An outage that lasts `seconds`, with its clients. `wrong` is the list of violations."""

    def __init__(self, cluster: Deployment, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._backlog = Backlog(cluster.bootstrap)
        self._members = [
            Follower(
                kind, cluster.bootstrap, "transactions", PARTITIONS, f"{kind}-{protocol}", protocol
            )
            for kind, protocol in MEMBERS
        ]
        self.wrong: list[str] = []

    def watch(self) -> None:
        """Run the outage. Raises AssertionError if a client does not recover."""
        self._backlog.start()
        load = Load(self._cluster, list(NEEDS), PAUSE_SECONDS)
        for member in self._members:
            member.start()
            member.await_more(PARTITIONS)
        with away(self._cluster), self._connections_watched():
            began = time.monotonic()
            time.sleep(UNTRUSTED)
            for reader in self._backlog.readers:
                reader.say("go")
            self._backlog.await_all(began + self._seconds)
            say(f"a backlog was read {time.monotonic() - began:.1f} s after they had gone\n")
            time.sleep(max(0.0, began + self._seconds - time.monotonic()))
        came = time.monotonic()
        load.await_commits(came)
        say(f"all producers commit {time.monotonic() - came:.1f} s after they were started again\n")
        for member in self._members:
            member.await_more(PARTITIONS)
        for follower in (*self._backlog.readers, *self._members):
            follower.stop()
        self._look_at_members()
        self.wrong += load.violations()

    @contextmanager
    def _connections_watched(self) -> Iterator[None]:
        """Check that connections stay open.

        franz-go closes connections that it has not used for 20 s, and librdkafka closes the one to a group's
        coordinator after an error.
        """
        ports = {int(agent.address.rpartition(":")[2]) for agent in self._cluster.agents}
        followers = (*self._backlog.readers, *self._members)
        before = {each.name: connections(each.pid, ports) for each in followers}
        yield
        for each in followers:
            lost = before[each.name] - connections(each.pid, ports)
            may_close = each.kind == "franz-go" or each in self._members
            if lost == before[each.name] or (lost and not may_close):
                self.wrong.append(
                    f"{each.name} has lost {len(lost)} of {len(before[each.name])} connections"
                )

    def _look_at_members(self) -> None:
        """Check that each member had all partitions throughout."""
        everything = list(range(PARTITIONS))
        for member in self._members:
            if member.events not in (
                [("assigned", everything)],
                [("assigned", everything), ("revoked", everything)],
            ):
                self.wrong.append(f"{member.name}: {member.events}")


def main() -> int:
    """Run the outage and print the observations. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.outages")
    parser.add_argument("--journal", choices=["postgresql", "bucket"], default="postgresql")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if programs := missing():
        parser.error(f"clients cannot be built without {', '.join(programs)}")
    end_by_exception()
    with (
        tempfile.TemporaryDirectory(prefix="lacuna-outages-") as folder,
        deployment(given.journal, Path(folder)) as cluster,
    ):
        outage = Outage(cluster, given.seconds)
        outage.watch()
    say(f"{len(outage.wrong)} violations; load {os.getloadavg()[1]:.1f}\n")
    say("".join(f"{line}\n" for line in outage.wrong))
    return 1 if outage.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
