"""Tests each page and its messages with the data of a running cluster."""

import html
import http.client
import re
import time
from collections.abc import Iterator
from unittest.mock import Mock
from urllib.parse import quote

import pytest

from lacuna.agent.housekeeping import Merger, MergeSettings
from lacuna.console import limits
from lacuna.console.formats import name
from lacuna.console.sampling import Counts, History, Moment, Sampler
from lacuna.console.sources import Sources
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    ImportReport,
    OpenLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.testing import Cluster
from tests.lacuna import clients
from tests.lacuna.console.conftest import (
    HOSTILE,
    NO_MERGES,
    SECONDS,
    Browser,
    served,
    transactional,
)

PAGES = [
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/0",
    "/topics/orders/0?from=9&to=12",
    "/topics/orders/0/messages",
    "/topics/orders/messages",
    "/topics/empty/0",
    "/topics/empty/0/messages",
    "/holes?topic=orders&partition=0&offset=12",
    "/groups",
    "/groups/group?id=billing",
    f"/groups/group?id={quote(HOSTILE)}",
    "/transactions",
    "/merges",
    "/search?q=o",
    "/imports",
    "/access",
    "/clients",
    "/nothing",
]


#: A duration that depends on when the page is requested: 850 ms, or 3 min 20 s.
DURATION = r"[\d.]+ \w+(?: \d+ \w+)?"


def plain(text: str) -> str:
    """Return a page's text without its tags."""
    found = re.sub(r"<(script|style|title).*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found)).split())


def test_the_cluster(browser: Browser, filled: Cluster) -> None:
    shown = plain(browser.get("/").text)
    assert f"Cluster {filled.embedded.control.cluster.cluster_id}" in shown
    assert "Topics 3 4 partitions" in shown
    assert "Held back 7 offsets, behind open transactions" in shown
    assert f"1 {filled.bootstrap} \N{EN DASH} serving" in shown
    assert "leader" in shown
    assert "1 with an open transaction" in shown
    assert "$" not in shown  # requests to a folder cost nothing


def test_topics_are_listed_searched_and_ordered(browser: Browser) -> None:
    shown = plain(browser.get("/topics").text)
    assert re.search(r"compacted 1 0 0 B \S+ 0 compact", shown)
    assert re.search(r"orders 2 27 [\d.]+ KiB \S+ 7 delete", shown)
    shown = plain(browser.get("/topics?q=MP").text)
    assert "orders 2" not in shown
    assert "2 topics" in shown
    text = browser.get("/topics?sort=size").text
    assert text.index(">orders<") < text.index(">compacted<")


def test_a_topic_shows_its_partitions_and_configs(browser: Browser) -> None:
    answer = browser.get("/topics/orders")
    assert re.search(r"0 0 20 27 7 [\d.]+ KiB Messages of partition 0", plain(answer.text))
    assert answer.text.count('<svg class="mini"') == 1  # the other partition is empty
    assert re.search(
        r"Reclaimed offsets 0 \d+ [\d.]+ \w+ 0 0\.0 % \d+ B 5 offsets 0 0\.0 %", plain(answer.text)
    )
    shown = plain(browser.get("/topics/compacted").text)
    assert "cleanup.policy compact delete set delete: retention deletes" in shown
    assert "retention.ms 604800000 7 d 604800000 7 d default Records older" in shown
    assert "min.compaction.lag.ms 0 0 ms 0 0 ms default" in shown
    assert "retention.bytes -1 no limit -1 no limit default" in shown
    assert browser.get("/topics/missing").code == 404


def test_a_partition_is_a_strip(browser: Browser) -> None:
    text = browser.get("/topics/orders/0").text
    shown = plain(text)
    for kind, count in {"committed": 15, "aborted": 5, "open": 3, "waiting": 4}.items():
        assert re.search(rf"{kind} {count} · ", shown), kind
        assert f'<rect class="band {kind}"' in text
    assert "bound last stable 20 7" in shown
    assert "group billing" in shown
    assert "done, transaction" in text
    assert "10\N{EN DASH}14 aborted 5 done, transaction" in shown


def test_the_strip_is_zoomed_to_one_record(browser: Browser) -> None:
    shown = plain(browser.get("/topics/orders/0?from=12&to=13").text)
    assert "aborted 1 · 100.0 %" in shown
    text = browser.get("/topics/orders/0?from=9&to=12").text
    assert text.count('<rect class="band aborted"') == 2
    assert 'messages?from=11&amp;count=1&amp;isolation=read_uncommitted"' in text
    assert "Offset 11. aborted: 10 to 11" in text
    assert "1 offset 13" in shown
    shown = plain(browser.get("/topics/orders/0?from=999999999999&to=3").text)
    assert "1 offset 27" in shown  # a position after the end gives the last record


def test_nothing_was_written(browser: Browser) -> None:
    assert "This partition has no records yet" in browser.get("/topics/empty/0").text
    assert browser.get("/topics/empty/1").code == 404
    assert "There are no messages to read here" in browser.get("/topics/empty/0/messages").text


def test_groups_and_their_lag(browser: Browser) -> None:
    shown = plain(browser.get("/groups").text)
    assert re.search(rf"billing Empty classic 1 3 {DURATION} 7", shown)
    shown = plain(browser.get("/groups/group?id=billing").text)
    assert re.search(rf"orders 0 17 20 3 {DURATION} 7", shown)
    assert "This group has no members." in shown
    assert browser.get("/groups/group?id=missing").code == 404


def test_transactions_and_whom_they_keep_waiting(browser: Browser) -> None:
    shown = plain(browser.get("/transactions").text)
    assert re.search(
        re.escape(name(HOSTILE)) + rf" {DURATION} of 1 d 1 7 in 1 partition \+7 \+4", shown
    )
    assert "orders [0]" in shown
    assert "done 1 CompleteAbort" in shown or re.search(r"done \d+ CompleteAbort", shown)
    assert "Abort…" not in shown  # it is read-only


@pytest.mark.parametrize("path", PAGES)
def test_what_is_hostile_is_text(browser: Browser, path: str) -> None:
    text = browser.get(path).text
    assert "<script>alert" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert re.findall(r"<script(.*?)>", text) == [' src="/static/console.js" defer']
    assert " style=" not in text
    assert not re.search(r"\son\w+=", text)


def test_metrics_and_health_are_there_too(browser: Browser) -> None:
    assert browser.get("/healthz").text == "ok\n"
    assert browser.get("/readyz").text == "ok\n"
    metrics = browser.get("/metrics")
    assert "lacuna_controlplane_leader 1.0" in metrics.text
    assert metrics.headers["content-type"].startswith("text/plain")


@pytest.fixture
def unmerged() -> Iterator[Cluster]:
    """A cluster that merges nothing automatically."""
    with Cluster(parts=NO_MERGES) as cluster:
        yield cluster


def test_what_merges_reclaimed_and_what_waits(unmerged: Cluster) -> None:
    cluster = unmerged
    cluster.create_topic("orders")
    cluster.create_topic("quiet")
    producer = transactional(cluster, "t")
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        clients.send(producer, "orders", ["x" * 100] * 3)
        end()
    with served(cluster) as browser:
        shown = plain(browser.get("/merges").text)
        assert "Nothing has been rewritten" in shown
        assert re.search(r"orders \N{EN DASH} \N{EN DASH} 0 0 0 B \d+ B 6 offsets", shown)
        agent = cluster.embedded.agents[0]
        assert agent.housekeeping is not None
        merger = Merger(
            agent.context.control,
            agent.context.store,
            agent.context.lease,
            agent.housekeeping.merger._executor,
            MergeSettings(min_extents=1, min_age_ms=0),
        )
        assert cluster.run(merger.run_once()) is not None
        agent.housekeeping.metrics.last_failure = HOSTILE
        agent.housekeeping.metrics.merges_failed = 2
        shown = plain(browser.get("/merges").text)
        assert "Aborted records left out 6 their offsets are holes" in shown
        assert "Failures 2 0 partitions had changed" in shown
        assert re.search(
            r"orders [\d.]+ \w+ 4 to 1 extents \N{EN DASH} 6 1 [\d.]+ \w+ 0 B 0 offsets", shown
        )
        assert re.search(r" merge 1 4 1 [\d.]+ \w+ [\d.]+ \w+ 6 ", shown)
        assert name(HOSTILE) in shown


def test_clients_and_what_is_known_of_them(browser: Browser) -> None:
    shown = plain(browser.get("/clients").text)
    assert re.search(r"confluent-kafka-python \S+-rdkafka-\S+ \d+ rdkafka 127\.0\.0\.1", shown)
    assert re.search(r"librdkafka 2\.\S+ as with Kafka", shown)


def test_importers_and_mirrors() -> None:
    async def report(cluster: Cluster) -> None:
        control = cluster.embedded.control
        wanted = CreateTopic(name="orders", partition_count=3, configs={"mirror.source": "k/o"})
        await control.call(Command(create_topics=CreateTopics(topics=[wanted])))
        lease = (await control.call(Command(open_lease=OpenLease()))).lease_opened
        told = ImportReport(source=HOSTILE, partitions=3, lag=7, bytes_copied=2048, stopped=1)
        renewal = RenewLease(lease_id=lease.lease_id, import_report=told)
        await control.call(Command(renew_lease=renewal))

    with Cluster() as cluster, served(cluster) as browser:
        assert "No importer is running." in plain(browser.get("/imports").text)
        cluster.run(report(cluster))
        shown = plain(browser.get("/imports").text)
        assert f"{name(HOSTILE)} all 3 7 0 2.0 KiB 1 stopped" in shown
        assert "orders 3 k/o" in shown
        assert "1 importer copies from another cluster" in plain(browser.get("/").text)


def test_ticks_come_and_streams_are_counted(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as none:
        none.setattr(limits, "STREAMS", 0)
        assert browser.get("/live").code == 503
    connection = http.client.HTTPConnection(browser.address, timeout=SECONDS)
    connection.request("GET", "/live")
    assert re.fullmatch(rb"event: tick\n", connection.getresponse().readline())
    connection.close()


def test_names_and_ids_are_found(browser: Browser, filled: Cluster) -> None:
    shown = plain(browser.get("/search?q=ORD").text)
    assert "orders topic id" in shown
    topic_id = re.findall(r"orders topic id (\S+)", shown)[0]
    assert "orders topic" in plain(browser.get(f"/search?q={topic_id}").text)
    shown = plain(browser.get("/search?q=bill").text)
    assert "billing group Empty" in shown
    shown = plain(browser.get("/search?q=done").text)
    producer_id = re.findall(r"done transactional id producer id (\d+), CompleteAbort", shown)[0]
    assert "done transactional id" in plain(browser.get(f"/search?q={producer_id}").text)
    assert "rdkafka client id confluent-kafka-python" in plain(browser.get("/search?q=rdk").text)
    assert "No topic, group or id contains" in browser.get("/search?q=xyzzy").text
    assert "Enter part of the name" in browser.get("/search").text
    text = browser.get(f"/search?q={quote('<script>')}").text
    assert "transactional id" in text
    assert "<script>alert" not in text


async def test_the_lines_of_the_last_hour() -> None:
    """Rates include only agents that were also there at the previous sample; after a gap, a new line begins."""
    sources = Mock(Sources)
    history = History(sources, Mock(Sampler))
    assert history.lines() == []
    for seconds, offsets, lag, agents in (
        (0.0, 100, 5, {1: Counts(10, 4, 0.1)}),
        (30.0, 400, 0, {1: Counts(70, 10, 0.2), 2: Counts(1000, 9, 9.0)}),
        (600.0, 500, 9, {2: Counts(1000, 9, 9.0)}),
        (630.0, 440, 3, {2: Counts(1300, 24, 9.5)}),
    ):
        history._moments.append(Moment(seconds, offsets, lag, 1, 2, agents))
    lines = {each.name: each for each in history.lines()}
    written = lines["Offsets written per second"]
    assert (written.newest, written.largest, written.path) == ("0", "10", "M48 0.0 M1000 100.0")
    requests = lines["Client requests per second"]
    assert (requests.newest, requests.largest, requests.path) == ("10", "10", "M48 80.0 M1000 0.0")
    lag_line = lines["Offsets not yet read by groups"]
    assert lag_line.path == "M0 44.4 L48 100.0 M952 0.0 L1000 66.7"
    assert lines["Store requests per second"].newest == "0.50"
    assert lines["Store cost, dollars per hour"].newest == "60"
    assert lines["Open transactions"].largest == "1"


@pytest.mark.slow
def test_the_lines_have_what_the_cluster_holds(
    lacuna_private_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOMENT_SECONDS", 0.05)
    cluster = lacuna_private_cluster
    ends = time.monotonic() + SECONDS
    with served(cluster) as browser:
        while "Offsets held back" not in (shown := plain(browser.get("/").text)):
            assert time.monotonic() < ends
            time.sleep(0.05)
    assert re.search(r"Open transactions 0 max 0", shown)


def test_gaps_are_explained_in_general_and_for_one_offset(browser: Browser) -> None:
    shown = plain(browser.get("/holes").text)
    assert "Gaps are normal in Kafka, too." in shown
    kinds = {3: "committed", 12: "aborted", 21: "open", 25: "waiting", 99: "later"}
    for offset, kind in kinds.items():
        shown = plain(browser.get(f"/holes?topic=orders&partition=0&offset={offset}").text)
        assert f"Offset {offset} of orders [0] is {kind} ." in shown
    assert browser.get("/holes?topic=orders&partition=7").code == 404
    assert browser.get("/holes?topic=missing").code == 404
