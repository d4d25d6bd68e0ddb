"""Compares the metrics of a running cluster, as scraped, with its clients' activity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaException
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lacuna.logstore.objects.prices import AMAZON_S3, Prices
from lacuna.logstore.objects.store import StoreMetrics
from lacuna.observing.agent import STORE
from lacuna.observing.families import Families
from lacuna.testing.ports import lasting_ports
from tests.forked import ForkedCluster
from tests.lacuna import clients

#: The value of a sample by name and labels, or 0 if there is none.
Sample = Callable[..., float]
Up = tuple[ForkedCluster, Callable[[], Sample]]


#: Each flush is one PUT, and there are no others.
PUTS_ALONE = ("--set=produce.hot.bytes=0", "--set=merge.interval.ms=1d")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A cluster, and a function that scrapes it."""
    (port,) = lasting_ports(1)
    options = [f"--health=127.0.0.1:{port}", *PUTS_ALONE]
    with ForkedCluster(tmp_path / "data", options) as cluster:
        yield cluster, lambda: scraped(port)


def scraped(port: int) -> Sample:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    with urlopen(Request(f"http://127.0.0.1:{port}/metrics", headers=accept), timeout=60) as answer:
        text = answer.read().decode()
    families: Iterator[Metric] = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return values.get((name, frozenset(labels.items())), 0.0)

    return value


def test_merges_are_counted_by_who_does_and_by_who_decides_them(tmp_path: Path) -> None:
    (port,) = lasting_ports(1)
    settings = ("merge.min.age.ms=0", "merge.min.extents=2", "merge.interval.ms=50")
    options = [f"--health=127.0.0.1:{port}", *(f"--set={each}" for each in settings)]
    with ForkedCluster(tmp_path / "data", options) as cluster:
        producer = clients.transactional(cluster.bootstrap, "shop")
        for commits in (True, False):
            clients.transact(producer, "t", ["x"] * 3, commits=commits)
        deadline = time.monotonic() + 60
        while True:
            sample = scraped(port)
            rewritten = sample("lacuna_rewritten_extents_total", by="merge", side="before")
            # The control plane counts a merge before the agent gets its answer.
            if (
                sample("lacuna_reclaimed_aborted_offsets_total", by="merge") == 3
                and sample("lacuna_merged_extents_total", side="before") == rewritten
            ):
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert rewritten >= 1
        assert sample("lacuna_rewrites_total", by="merge") >= 1
        assert sample("lacuna_rewrites_total", by="compaction") == 0
        assert sample("lacuna_merges_total") >= 1
        assert sample("lacuna_merges_failed_total") == 0
        assert sample("lacuna_replaced_objects") >= 1
        assert sample("lacuna_merge_waiting_aborted_offsets") == 0


def test_lag_counts_what_will_be_read(up: Up) -> None:
    """Lag excludes aborted records and transaction markers, so a group that has read everything has no lag."""
    cluster, scrape = up
    producer = clients.transactional(cluster.bootstrap, "shop")
    for number in range(4):
        clients.transact(producer, "t", ["x"] * 5, commits=number < 2)
    lag = {"consumergroup": "g", "topic": "t", "partition": "0"}
    clients.commit(cluster.bootstrap, "g", "t", 3)
    sample = scrape()
    assert sample("kafka_consumergroup_lag", **lag) == 7
    assert sample("kafka_consumergroup_lag_sum", consumergroup="g") == 7
    assert sample("kafka_consumergroup_lag_seconds", **lag) > 0
    assert sample("kafka_consumergroup_current_offset", **lag) == 3
    read = clients.consume(cluster.bootstrap, "t", 10)
    clients.commit(cluster.bootstrap, "g", "t", read[-1][0] + 1)
    sample = scrape()
    assert sample("lacuna_topic_offsets_total", topic="t") == 20
    assert sample("kafka_consumergroup_lag", **lag) == 0
    assert sample("kafka_consumergroup_lag_seconds", **lag) == 0


@pytest.mark.slow
def test_who_holds_the_last_stable_offset(up: Up) -> None:
    cluster, scrape = up
    clients.send(clients.plain(cluster.bootstrap), "t", ["x"] * 3)
    holder = clients.opened(cluster.bootstrap, "holder", "t", ["open"])
    clients.send(clients.plain(cluster.bootstrap), "t", ["x"] * 2)
    place = {"topic": "t", "partition": "0"}
    sample = scrape()
    assert sample("lacuna_lso_lag", **place) == 3
    assert sample("lacuna_lso_blocked_seconds", **place, transactional_id="holder") > 0
    assert sample("lacuna_oldest_transaction_seconds") > 0
    assert sample("lacuna_partitions_blocked") == 1
    assert sample("lacuna_transactional_ids", state="Ongoing") == 1
    holder.commit_transaction(60)
    sample = scrape()
    assert sample("lacuna_lso_lag", **place) == 0
    assert sample("lacuna_oldest_transaction_seconds") == 0
    assert sample("lacuna_transactional_ids", state="CompleteCommit") == 1


def test_requests_and_errors_are_counted(up: Up) -> None:
    """Each answered request has a duration, and each error code in an answer is counted."""
    cluster, scrape = up
    producer = clients.plain(cluster.bootstrap)
    clients.send(producer, "t", ["x"])
    before = scrape()
    for _ in range(3):
        clients.send(producer, "t", ["x"])
    after = scrape()
    for name in ("lacuna_requests_total", "lacuna_request_duration_seconds_count"):
        assert after(name, api="Produce") - before(name, api="Produce") == 3
    assert after("lacuna_flushed_batches_total") - before("lacuna_flushed_batches_total") == 3
    puts, cost = "lacuna_store_requests_total", "lacuna_store_cost_dollars_total"
    assert after(puts, operation="put") - before(puts, operation="put") == 3
    assert after(cost) == before(cost) == 0  # a folder's requests cost nothing
    assert after("lacuna_journal_records_total") == after("lacuna_journal_durable_position")
    other = clients.transactional(cluster.bootstrap, "fenced")
    clients.transactional(cluster.bootstrap, "fenced")
    other.begin_transaction()
    other.produce("t", b"x")
    with pytest.raises(KafkaException, match="fenced"):
        other.commit_transaction(60)
    errors = "lacuna_request_errors_total"
    sample = scrape()
    assert sum(
        sample(errors, api="AddPartitionsToTxn", error=name)
        for name in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    )


@pytest.mark.parametrize(("prices", "dollars"), [(AMAZON_S3, 0.005), (None, 0.0)])
async def test_only_requests_that_have_prices_cost_dollars(
    prices: Prices | None, dollars: float
) -> None:
    metrics = StoreMetrics(prices=prices)
    for _ in range(1000):
        metrics.count_put(1)
    families = Families()
    await families.add(STORE, metrics)
    (cost,) = (each for each in families.collect() if each.name == "lacuna_store_cost_dollars")
    assert cost.samples[0].value == pytest.approx(dollars)
