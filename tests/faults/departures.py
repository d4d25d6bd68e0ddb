"""Measures how long clients pause when one of two agents leaves.

    python -m tests.faults.departures --way kill --times 10
    python -m tests.faults.departures --way suspend --times 3    # for 20 s each

librdkafka, Java and Go producers write transactions, and a group member from each library reads a topic that is fed
through the other agent. For each departure, the program prints the longest time without an answered commit for any
producer, and the longest time without a record from some partition for any consumer. It then prints percentiles and
violations in the clients' histories. The exit code is 1 if there are violations.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.batch import batch
from tests.clients.probing import Target

from .checked_load import Load
from .foreign import NEEDS, Follower, missing
from .processes import Deployment, Process, end_by_exception
from .takeovers import PAUSE_SECONDS, longest_pause, say, shown

WAYS: Final = ("kill", "suspend")
TOPIC: Final = "feed"
#: So many that each of two agents leads some.
PARTITIONS: Final = 8
FEED_SECONDS: Final = 0.05
SUSPENDED_SECONDS: Final = 20.0
#: Where librdkafka was refused, it pauses for up to ten seconds before it connects again (reconnect.backoff.max.ms).
REST_SECONDS: Final = 11.0
#: By then a client that uses the agent has noticed that it was killed.
NOTICE_SECONDS: Final = 6.0
SECONDS: Final = 60.0


class Feed(threading.Thread):
    """Continuously sends records to each partition through one agent. Any agent accepts any partition."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.targets = [Target(address) for address in bootstrap.split(",")]
        self.number = 0
        self._turn = threading.Lock()
        self._is_over = threading.Event()

    def run(self) -> None:
        rows: list[tuple[str, int, bytes | None]] = [
            (TOPIC, partition, batch([b"x"])) for partition in range(PARTITIONS)
        ]
        while not self._is_over.wait(FEED_SECONDS):
            with self._turn:
                answers = self.targets[self.number].produce_many(rows)
            assert {answer["error_code"] for answer in answers} == {0}

    def through(self, number: int, address: str) -> None:
        """Use the agent with this number from now on."""
        with self._turn:
            self.targets[number] = Target(address)
            self.number = number

    def stop(self) -> None:
        self._is_over.set()
        self.join(SECONDS)


class Stage:
    """Two agents, the clients, and the feed."""

    def __init__(self, cluster: Deployment) -> None:
        self.cluster = cluster
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        self.load = Load(cluster, list(NEEDS), PAUSE_SECONDS)
        self.feed = Feed(cluster.bootstrap)
        self.feed.start()
        self.followers = [
            Follower(kind, cluster.bootstrap, TOPIC, PARTITIONS, f"of {kind}", "classic")
            for kind in ("librdkafka", *NEEDS)
        ]
        for follower in self.followers:
            follower.start()
        self.await_records(time.monotonic())

    def await_records(self, since: float) -> None:
        """Wait until each follower has received a record of each partition after `since`."""
        for follower in self.followers:
            while min(times[-1] for times in follower.times.values()) <= since:
                follower.await_more(1)

    def await_agents(self) -> None:
        """Wait until both agents are listed as brokers."""
        asked = self.feed.targets[self.feed.number].bootstrap
        deadline = time.monotonic() + SECONDS
        while True:
            answer = Target(asked).call("describe_cluster", 0)
            if len(answer["brokers"]) == len(self.cluster.agents):
                return
            assert time.monotonic() < deadline, "the agent does not come back"

    def depart(self, number: int, way: str) -> dict[str, float]:
        """Make an agent leave and return. Returns each client's longest pause."""
        self.await_agents()
        agent, other = self.cluster.agents[number], self.cluster.agents[1 - number]
        self.feed.through(1 - number, other.address)
        self.await_records(time.monotonic())
        began = time.monotonic()
        if way == "kill":
            agent.kill()
        else:
            agent.pause()
        self.load.await_commits(began)
        self.await_records(began)
        # Some clients have not noticed yet.
        time.sleep(max(0.0, began + NOTICE_SECONDS - time.monotonic()))
        ended = time.monotonic()
        self.load.await_commits(ended)
        self.await_records(ended)
        pauses = {
            f"{kind} producer": longest_pause(commits, began, ended)
            for kind, commits in self.load.commits().items()
        }
        pauses |= {f"{each.kind} consumer": longest_gap(each, began) for each in self.followers}
        self._bring_back(agent, way, began)
        time.sleep(REST_SECONDS)
        return pauses

    def _bring_back(self, agent: Process, way: str, began: float) -> None:
        if way == "kill":
            agent.start()
        else:
            time.sleep(max(0.0, began + SUSPENDED_SECONDS - time.monotonic()))
            agent.resume()

    def violations(self) -> list[str]:
        """End the clients. Return contradictions between their acknowledgements and the records that were read."""
        self.feed.stop()
        for follower in self.followers:
            follower.stop()
        return self.load.violations()


def longest_gap(follower: Follower, began: float) -> float:
    """Return the longest time since `began` during which a consumer received nothing from some partition."""
    gaps = []
    for times in follower.times.values():
        near = [began, *(each for each in times if each > began)]
        gaps += [after - before for before, after in pairwise(near)]
    return max(gaps)


@contextmanager
def deployment(folder: Path) -> Iterator[Deployment]:
    """Start a control plane and two agents."""
    with Deployment(folder / "control", 2, [f"--objects={folder / 'objects'}"]) as made:
        yield made


def measure(cluster: Deployment, way: str, times: int) -> int:
    """Make the agents leave in turn, and print the measurements. Return the exit code."""
    stage = Stage(cluster)
    found: dict[str, list[float]] = {}
    for number in range(times):
        pauses = stage.depart(number % 2, way)
        if not found:
            say(f"{'':4}{''.join(f'{name:>20}' for name in pauses)}\n")
        for name, pause in pauses.items():
            found.setdefault(name, []).append(pause)
        say(f"{number + 1:4}{''.join(f'{pause:20.2f}' for pause in pauses.values())}\n")
    violations = stage.violations()
    say(f"one of two agents, {way}, {times} times: seconds without a commit or a record\n")
    for name, durations in found.items():
        say(shown(f"{name:20}", durations))
    say(f"{len(violations)} violations; load {os.getloadavg()[1]:.1f}\n")
    say("".join(f"{line}\n" for line in violations))
    return 1 if violations else 0


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.departures")
    parser.add_argument("--way", choices=WAYS, default="kill")
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    if programs := missing():
        parser.error(f"clients cannot be built without {', '.join(programs)}")
    end_by_exception()
    with (
        tempfile.TemporaryDirectory(prefix="lacuna-departures-") as folder,
        deployment(Path(folder)) as cluster,
    ):
        return measure(cluster, given.way, given.times)


if __name__ == "__main__":
    sys.exit(main())
