"""Tests that ten thousand idle clients and five hundred that stop mid-request do not block others."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from bench.clients import percentile
from bench.crowd import ask, crowd_at
from lacuna.testing import ProcessCluster
from tests.clients.librd import read

IDLE, HALVES = 10_000, 500
REQUESTS = 300


def latencies(producer: Producer, values: list[bytes]) -> list[float]:
    """Return the milliseconds from produce() to the acknowledgement, one record at a time."""
    found = []
    for value in values:
        began = time.perf_counter()
        producer.produce("t", value)
        assert producer.flush(60) == 0
        found.append((time.perf_counter() - began) * 1000)
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_crowd_of_idle_clients(record_property: Callable[[str, object], None]) -> None:
    """S2, S13: concurrent records are acknowledged and read, and idle clients are served when they send."""
    alone, beside = ([b"%s-%d" % (name, i) for i in range(REQUESTS)] for name in (b"a", b"b"))
    with ProcessCluster() as served:
        producer = Producer({"bootstrap.servers": served.bootstrap, "linger.ms": 0})
        before = latencies(producer, alone)
        with crowd_at(served.bootstrap, IDLE, HALVES) as (idle, halves):
            during = latencies(producer, beside)
            found = read(served.bootstrap, "t")
            for connection in idle:
                ask(connection)
            for connection in halves:
                connection.setblocking(False)
                with pytest.raises(BlockingIOError):  # neither answered nor closed
                    connection.recv(1)
    assert found.values == alone + beside
    for name, times in (("before", before), ("during", during)):
        figures = ", ".join(f"p{100 * q:.0f} {percentile(times, q):.2f} ms" for q in (0.5, 0.99))
        record_property(name, figures)
        print(f"acknowledgements {name}: {figures}")  # noqa: T201 - the figures are the point
