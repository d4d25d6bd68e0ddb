"""Tests each page and its messages with the data of a running cluster."""

import html
import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from lacuna.agent.housekeeping import Merger, MergeSettings
from lacuna.console import formats, limits
from lacuna.console.formats import name
from lacuna.testing import Cluster
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
    "/topics/empty/0",
    "/topics/empty/0/messages",
    "/groups",
    "/groups/group?id=billing",
    f"/groups/group?id={quote(HOSTILE)}",
    "/transactions",
    "/merges",
    "/clients",
    "/nothing",
]


#: What a page says of a time that depends on when it is asked: 850 ms, or 3 min 20 s.
DURATION = r"[\d.]+ \w+(?: \d+ \w+)?"


def plain(text: str) -> str:
    """Return the text of a page without its tags."""
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
    assert "cleanup.policy compact set" in plain(browser.get("/topics/compacted").text)
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
    assert "1 offset 27" in shown  # what is behind the end is the last record


def test_nothing_was_written(browser: Browser) -> None:
    assert "This partition has no records yet" in browser.get("/topics/empty/0").text
    assert browser.get("/topics/empty/1").code == 404
    assert "No messages to read here" in browser.get("/topics/empty/0/messages").text


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
    """A cluster that merges nothing by itself."""
    with Cluster(parts=NO_MERGES) as cluster:
        yield cluster


def test_what_merges_reclaimed_and_what_waits(unmerged: Cluster) -> None:
    cluster = unmerged
    cluster.create_topic("orders")
    cluster.create_topic("quiet")
    producer = transactional(cluster, "t")
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("orders", value=b"x" * 100)
        producer.flush()
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


PATH = "/topics/orders/0/messages"


def test_messages_are_decoded(browser: Browser) -> None:
    text = browser.get(f"{PATH}?from=15&count=5").text
    shown = plain(text)
    assert formats.name(HOSTILE) in shown
    assert '"html": "&lt;b&gt;bold&lt;/b&gt;"'.replace('"', "&#34;") in text
    assert "c8 c9 ca" in shown
    assert "null (a tombstone" in shown
    assert "… of 97.7 KiB" in shown
    assert len(text) < 40_000
    assert "7b 22 68 74 6d 6c" in plain(browser.get(f"{PATH}?from=16&count=1&as=hex").text)


def test_what_is_not_visible_is_not_shown_unless_it_is_asked_for(browser: Browser) -> None:
    shown = plain(browser.get(f"{PATH}?from=0&count=100").text)
    values = re.findall(r" v\d+ ", shown)  # an id on the page may begin with " v", too
    assert len(values) == 10  # the aborted ones are not there
    assert "open 0" not in shown
    assert "read_committed consumers receive records before 20" in shown
    shown = plain(browser.get(f"{PATH}?from=0&count=100&isolation=read_uncommitted").text)
    assert shown.count("aborted") == 5
    assert shown.count("not stable yet") == 7


def test_a_filter_and_a_seek(browser: Browser) -> None:
    shown = plain(browser.get(f"{PATH}?from=0&q=v7").text)
    assert "1 message from offset 0, of 15 examined" in shown
    assert "7 20" in shown
    by_time = plain(browser.get(f"{PATH}?time=2001-01-01T00:00").text)
    assert "from offset 0" in by_time
    later = plain(browser.get(f"{PATH}?time=2999-01-01").text)
    assert "No messages to read here" in later


@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "from=-1",
        "from=99999999999999999999",
        "count=z",
        "time=noon",
        "as=c",
        "isolation=9",
    ],
)
def test_what_cannot_be_asked_is_told(browser: Browser, query: str) -> None:
    answer = browser.get(f"{PATH}?{query}")
    assert answer.code == 400
    assert "note bad" in answer.text


def test_messages_arrive(browser: Browser) -> None:
    connection = http.client.HTTPConnection(browser.address, timeout=SECONDS)
    connection.request("GET", "/live/orders/0?from=15")
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    lines = iter(response.readline, b"")
    data = next(line for line in lines if line.startswith(b"data: "))
    messages = json.loads(data[6:])["messages"]
    assert [each["offset"] for each in messages] == [15, 16, 17, 18, 19]
    assert messages[0]["key"] == formats.visible(HOSTILE)
    connection.close()


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


@pytest.mark.parametrize(
    ("data", "how", "text"),
    [
        (b"plain", "auto", ("plain", "text", False)),
        (b'{"a": 1}', "auto", ('{"a": 1}', "json", False)),
        (b'{"a": 1}', "text", ('{"a": 1}', "text", False)),
        (b"{no json", "json", ("{no json", "text", False)),
        (b"\xff\x00", "auto", ("ff 00", "hex", False)),
        (b"a\x00b", "auto", ("a\\x00b", "text", False)),
        (b"abcdef", "hex", ("61 62 63 64", "hex", True)),
        (
            "ab\N{GREEK SMALL LETTER ALPHA}c".encode(),
            "text",
            ("ab\N{GREEK SMALL LETTER ALPHA}", "text", True),
        ),
        (None, "auto", ("null", "null", False)),
        (b"[" * 4, "auto", ("[[[[", "text", False)),
    ],
)
def test_bytes_as_text(data: bytes | None, how: str, text: tuple[str, str, bool]) -> None:
    most = 4 if how == "hex" or (data or b"").startswith(b"ab\xce") else 100
    assert formats.shown(data, how, most) == text
