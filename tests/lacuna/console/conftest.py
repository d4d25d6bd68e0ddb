"""A cluster with entities of every kind, and its console."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from lacuna.agent.housekeeping import HousekeepingSettings, MergeSettings
from lacuna.console import limits
from lacuna.console.decoding import Decoding
from lacuna.console.listening import listen
from lacuna.console.serving import console_served
from lacuna.console.sources import of_embedded
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.verbs import producers
from lacuna.observing.agent import STARTING, observe_agent
from lacuna.observing.control import observe_control_plane
from lacuna.observing.endpoint import Observed, Shown
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.lacuna import clients
from tests.lacuna.conftest import with_lasting_leases

HOSTILE = "<script>alert('x')</script>&\"\N{RIGHT-TO-LEFT OVERRIDE}"
SECONDS = 120.0
DAY_MS = 24 * 3600 * 1000
#: Aborted records stay in the log, however long a test takes.
NO_MERGES = AgentParts(housekeeping=HousekeepingSettings(merge=MergeSettings(min_age_ms=DAY_MS)))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lifts the limits that a busy machine could reach. A test for a limit sets that limit itself."""
    for name in ("HEAD", "WAIT", "ANSWER", "FORM", "ASK", "SCAN"):
        monkeypatch.setattr(limits, f"{name}_SECONDS", 600.0)


class Seconds:
    """A console's clock that only its test moves."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def pass_by(self, seconds: float) -> None:
        self._now += seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """A response from the console."""

    code: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Browser:
    """Sends requests to a console, as a browser at its address would. `control` is the console's own client."""

    address: str
    control: ControlClient

    def get(self, path: str, **headers: str) -> Answer:
        """Send a GET. In header names, _ stands for -."""
        return self._send("GET", path, None, headers)

    def post(self, path: str, body: str, **headers: str) -> Answer:
        """Send a form from one of the console's own pages, unless `headers` specifies otherwise."""
        own = {
            "origin": f"http://{self.address}",
            "content_type": "application/x-www-form-urlencoded",
        }
        return self._send("POST", path, body, own | headers)

    def _send(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection(self.address, timeout=SECONDS)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items() if value}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read().decode(),
            )
        finally:
            connection.close()


@contextmanager
def served(
    cluster: Cluster,
    *,
    may_write: bool = False,
    seconds: Callable[[], float] = time.monotonic,
    decoding: Decoding | None = None,
) -> Iterator[Browser]:
    """Serve a cluster's console in the cluster's own event loop."""
    stack = AsyncExitStack()
    observed = Observed(STARTING)

    async def begin() -> Browser:
        embedded = cluster.embedded
        observe_control_plane(observed, embedded.running, embedded.settings.service.runtime)
        observe_agent(observed, embedded.agents[0])
        sources = replace(await of_embedded(embedded, Shown(observed)), seconds=seconds)
        address = await stack.enter_async_context(
            console_served(
                listen("127.0.0.1:0", "--console"),
                sources,
                may_write=may_write,
                decoding=decoding,
            )
        )
        return Browser(address, sources.control)

    browser = cluster.run(begin())
    try:
        yield browser
    finally:
        cluster.run(stack.aclose())


def read(cluster: Cluster, group: str, topic: str, count: int) -> None:
    """Make a group read `count` records from a topic, commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    for _ in range(count):
        found = consumer.poll(SECONDS)
        assert found is not None, "no record came"
        assert found.error() is None, found.error()
        consumer.commit(message=found, asynchronous=False)
    consumer.close()


def transactional(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    """Return a transactional producer that is ready to begin a transaction. Its transactions never time out during a
    run.
    """
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": DAY_MS,
            **settings,
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "TRANSACTION_MAX_TIMEOUT_MS", DAY_MS)
        producer.init_transactions(SECONDS)
    return producer


@pytest.fixture(scope="session")
def filled() -> Iterator[Cluster]:
    """A cluster with committed, aborted, open and waiting records, hostile names, and groups.

    Topic orders [0]: 0-9 committed, 10-14 aborted, 15-19 plain, 20-22 in an open transaction, 23-26 waiting.
    """
    with Cluster(parts=NO_MERGES) as cluster:
        with_lasting_leases(cluster)
        cluster.create_topic("orders", 2)
        cluster.create_topic("compacted", 1, {"cleanup.policy": "compact"})
        cluster.create_topic("empty")
        # Each `flush` sends one batch, however slow the machine is.
        at_once = {"linger.ms": 30_000}
        plain = Producer({"bootstrap.servers": cluster.bootstrap, **at_once})
        done = transactional(cluster, "done", **at_once)
        for count, end in ((10, done.commit_transaction), (5, done.abort_transaction)):
            done.begin_transaction()
            for number in range(count):
                done.produce("orders", key=f"k{number}", value=f"v{number}", partition=0)
            done.flush()
            end()
        value = json.dumps({"html": "<b>bold</b>", "rows": list(range(40))})
        plain.produce("orders", key=HOSTILE, value=HOSTILE, partition=0, headers={HOSTILE: HOSTILE})
        plain.produce("orders", key="json", value=value, partition=0)
        plain.produce("orders", key="bytes", value=bytes(range(200, 256)), partition=0)
        plain.produce("orders", key="null", value=None, partition=0)
        plain.produce("orders", key="long", value="x" * 100_000, partition=0)
        plain.flush()
        read(cluster, "billing", "orders", 12)
        read(cluster, HOSTILE, "orders", 15)
        holder = transactional(cluster, HOSTILE, **at_once)
        holder.begin_transaction()
        clients.send(holder, "orders", [f"open {number}" for number in range(3)])
        clients.send(plain, "orders", [f"behind {number}" for number in range(4)])
        yield cluster


@pytest.fixture(scope="session")
def browser(filled: Cluster) -> Iterator[Browser]:
    """A browser for the read-only console of `filled`."""
    with served(filled) as found:
        yield found
