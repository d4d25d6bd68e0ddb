"""Tests the message pages: their order, positions, limits, searches and streams."""

import asyncio
import html
import http.client
import json
import re
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.console import formats, limits, live, reading
from lacuna.console.messages import milliseconds
from lacuna.console.reading import Found, Reader
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import (
    HOSTILE,
    NO_MERGES,
    SECONDS,
    Browser,
    served,
    transactional,
)
from tests.lacuna.console.test_pages import plain

PATH = "/topics/orders/0/messages"


@pytest.mark.slow
def test_messages_are_decoded(browser: Browser) -> None:
    text = browser.get(f"{PATH}?from=15&count=5").text
    shown = plain(text)
    assert formats.name(HOSTILE) in shown
    assert text.count("<details>") == 5
    assert '"html": "&lt;b&gt;bold&lt;/b&gt;"'.replace('"', "&#34;") in text
    assert "c8 c9 ca" in shown
    assert "null (a tombstone" in shown
    assert "… of 97.7 KiB" in shown
    assert len(text) < 40_000
    assert "7b 22 68 74 6d 6c" in plain(browser.get(f"{PATH}?from=16&count=1&as=hex").text)


@pytest.mark.slow
def test_what_is_not_visible_is_not_shown_unless_it_is_asked_for(browser: Browser) -> None:
    shown = plain(browser.get(f"{PATH}?from=0&count=100").text)
    values = re.findall(r"Value text, 2 B v\d+ ", shown)
    assert len(values) == 10  # the aborted ones are not there
    assert "open 0" not in shown
    assert "read_committed consumers receive records before 20" in shown
    shown = plain(browser.get(f"{PATH}?from=0&count=100&isolation=read_uncommitted").text)
    assert shown.count(" aborted ") == 5
    assert shown.count("not stable yet") == 7


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1100", 1100),
        ("10m", 400_000),
        ("-10m", 400_000),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T01:00:02+01:00", 2000),
        ("1960-01-01", 0),
    ],
)
def test_the_forms_of_a_time(text: str, found: int) -> None:
    assert milliseconds(text, 1_000_000) == found


def test_a_filter_and_a_seek(browser: Browser) -> None:
    shown = plain(browser.get(f"{PATH}?from=0&q=v7").text)
    assert "1 message, of 15 examined" in shown
    assert [
        at for _, at in rows(browser.get(f"{PATH}?from=0&q=v7&col=partition&col=offset").text)
    ] == [7]
    by_time = browser.get(f"{PATH}?time=2001-01-01T00:00").text
    assert [at for _, at in rows(by_time)][:3] == [0, 1, 2]
    assert rows(browser.get(f"{PATH}?time=1h").text) == rows(by_time)
    later = plain(browser.get(f"{PATH}?time=2999-01-01").text)
    assert "There are no messages to read here" in later


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
        "in=there",
        "col=colour",
        "after=1.2",
        "before=x",
    ],
)
def test_what_cannot_be_asked_is_told(browser: Browser, query: str) -> None:
    answer = browser.get(f"{PATH}?{query}")
    assert answer.code == 400
    assert "note bad" in answer.text


def test_the_last_stable_offset_is_a_place_to_read_from(browser: Browser) -> None:
    text = browser.get("/topics/orders/0/messages?seek=stable&isolation=read_uncommitted").text
    assert [at for _, at in rows(text)] == list(range(20, 27))
    assert "7 offsets are waiting" in plain(browser.get("/topics/orders/messages").text)


class Stream:
    """An event stream of the console."""

    def __init__(self, browser: Browser, path: str) -> None:
        self._connection = http.client.HTTPConnection(browser.address, timeout=SECONDS)
        self._connection.request("GET", path)
        self._response = self._connection.getresponse()
        assert self._response.getheader("content-type", "").startswith("text/event-stream")

    def events(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and data of each event."""
        name = ""
        for line in iter(self._response.readline, b""):
            key, _, value = line.decode().strip().partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                yield name, json.loads(value)

    def close(self) -> None:
        """Leave, as a visitor who closes the page does."""
        self._response.close()
        self._connection.close()


def test_messages_arrive(browser: Browser) -> None:
    stream = Stream(browser, "/live/orders/0/messages?from=15&col=offset&col=key&col=partition")
    name, data = next(stream.events())
    stream.close()
    assert name == "messages"
    assert [at for _, at in rows(data["rows"])] == [15, 16, 17, 18, 19]
    assert formats.visible(HOSTILE) in html.unescape(data["rows"])
    assert "<script>" not in data["rows"]


def test_a_tail_skips_what_is_beyond_its_rate(browser: Browser) -> None:
    stream = Stream(browser, "/live/orders/messages?from=0&rate=8&isolation=read_uncommitted")
    _, data = next(stream.events())
    stream.close()
    assert [at for _, at in rows(data["rows"])] == [25, 26]
    assert data["skipped"] == 25
    assert browser.get("/live/orders/messages?rate=x").code == 404
    assert browser.get("/live/missing/messages").code == 404


ABORTED = 40
EACH = 60


@pytest.fixture(scope="module")
def scattered() -> Iterator[Cluster]:
    """A cluster with the topic `many`, which has four partitions: three with 60 records each, at alternating times, and
    an empty one.

    In partition 1, 40 aborted records precede the last ten.
    """
    with Cluster(parts=NO_MERGES) as cluster:
        cluster.create_topic("many", 4)
        at_once = {"linger.ms": 30_000}
        plain_one = Producer({"bootstrap.servers": cluster.bootstrap, **at_once})
        aborting = transactional(cluster, "t", **at_once)
        for number in range(EACH):
            if number == EACH - 10:
                plain_one.flush()
                aborting.begin_transaction()
                for _ in range(ABORTED):
                    aborting.produce("many", value="aborted", partition=1, timestamp=1)
                aborting.flush()
                aborting.abort_transaction()
            for partition in range(3):
                plain_one.produce(
                    "many",
                    key=f"key-{number % 20}",
                    value=f"value {number} of {partition}" + (" needle" if number == 33 else ""),
                    partition=partition,
                    timestamp=1_000 + 3 * number + partition,
                    headers={"kind": "last" if number == EACH - 1 else "other"},
                )
        plain_one.flush()
        yield cluster


@pytest.fixture(scope="module")
def at_many(scattered: Cluster) -> Iterator[Browser]:
    with served(scattered) as found:
        yield found


MANY = "/topics/many/messages"


def rows(text: str) -> list[tuple[int, int]]:
    """Return the partitions and offsets of the messages on a page or in a part of one."""
    found = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    return [
        (
            int((re.findall(r'class="partition"[^>]*>(\d+)<', row) or ["0"])[0]),
            int(at[0].replace(",", "")),
        )
        for row in found
        if (at := re.findall(r'<th scope="row" class="offset">([\d,]+)', row))
    ]


def times(text: str) -> list[str]:
    """Return the times of the messages on a page."""
    return re.findall(r'<td class="time"[^>]*>([^<]+)<', text)


def address(text: str, name: str) -> str:
    """Return the address to which a link on a page leads."""
    (found,) = re.findall(rf'href="([^"]+)"[^>]*>{name}</a>', text)
    return html.unescape(found)


@pytest.mark.slow
def test_a_whole_topic_is_in_the_order_of_time(at_many: Browser) -> None:
    text = at_many.get(MANY).text
    assert "all 4 partitions" in plain(text)
    assert rows(text)[-4:] == [(2, 58), (0, 59), (1, 99), (2, 59)]
    assert len(times(text)) == 25
    assert all(one <= other for one, other in pairwise(times(text)))


@pytest.mark.parametrize(("begin", "name"), [("Newest", "Earlier"), ("Oldest", "Later")])
@pytest.mark.parametrize("count", [7, 100])
def test_pages_follow_each_other_without_gaps_and_doubles(
    at_many: Browser, begin: str, name: str, count: int
) -> None:
    page = at_many.get(address(at_many.get(f"{MANY}?count={count}").text, begin)).text
    seen: list[tuple[int, int]] = []
    while found := rows(page):
        assert len(found) <= count
        seen += found if name == "Later" else reversed(found)
        page = at_many.get(address(page, name)).text
    at = {(p, n): 3 * (n if p != 1 or n < EACH - 10 else n - ABORTED) + p for p, n in seen}
    assert len(at) == len(seen) == 3 * EACH
    in_time = [at[each] for each in seen]
    assert in_time == sorted(in_time, reverse=name == "Earlier")


def test_a_time_is_sought_in_all_partitions(at_many: Browser) -> None:
    assert rows(at_many.get(f"{MANY}?time=1100&count=3").text) == [(1, 33), (2, 33), (0, 34)]
    assert rows(at_many.get(f"{MANY}?from=58&count=2").text) == [(1, 90), (1, 91)]


def test_a_partition_is_a_page_of_its_own(at_many: Browser) -> None:
    answer = at_many.get(f"{MANY}?partition=2&from=7&q=x&after=1.2.3.4")
    assert (answer.code, answer.headers["location"]) == (303, "/topics/many/2/messages?from=7&q=x")
    assert at_many.get(f"{MANY}?partition=x").code == 400


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=needle", [(0, 33), (1, 33), (2, 33)]),
        ("q=key-7&in=key&count=4", [(0, 7), (1, 7), (2, 7), (0, 27)]),
        ("q=key-1&in=key+is&count=4", [(0, 1), (1, 1), (2, 1), (0, 21)]),
        ("q=last", [(0, 59), (1, 99), (2, 59)]),
        ("q=needle&in=key", []),
        ("q=aborted", []),
    ],
)
def test_a_search(at_many: Browser, query: str, found: list[tuple[int, int]]) -> None:
    assert rows(at_many.get(f"{MANY}?{query}").text) == found


def test_columns_are_chosen(at_many: Browser) -> None:
    text = at_many.get(f"{MANY}?count=1&col=key&col=headers&col=size").text
    assert re.findall(r'<th scope="col" class="(\w+)"', text) == ["key", "headers", "size"]
    assert "key-19 kind: last 19" in plain(text)
    assert "col=headers" in address(text, "Earlier")


def test_more_partitions_than_a_page_reads(
    at_many: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARTITIONS", 2)
    text = at_many.get(MANY).text
    assert {partition for partition, _ in rows(text)} == {0, 1}
    text = at_many.get(address(text, "Further partitions")).text
    assert "partitions 2 to 3 of 4" in plain(text)
    assert {partition for partition, _ in rows(text)} == {2}
    assert "Further partitions" not in text


def test_a_page_reads_a_bounded_part(at_many: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page continues where the previous one stopped, and its script continues automatically."""
    monkeypatch.setattr(limits, "FETCH_BYTES", 1)
    monkeypatch.setattr(reading, "_LEAST_BYTES", 1)
    monkeypatch.setattr(Reader.__init__, "__kwdefaults__", {"most_bytes": 1})
    text = at_many.get(MANY).text
    assert "more records than this page may read" in plain(text)
    text = at_many.get(f"{MANY}?q=needle").text
    assert "Continue the search" in text
    stream = Stream(at_many, re.findall(r'data-url="([^"]+search[^"]+)"', html.unescape(text))[0])
    events = list(stream.events())
    assert [name for name, _ in events[:-1]] == ["found"] * (len(events) - 1)
    assert events[-1] == ("done", False)
    found = [row for _, data in events[:-1] for row in rows(data["rows"])]
    assert sorted(found + rows(text)) == [(0, 33), (1, 33), (2, 33)]
    shares = [data["share"] for _, data in events[:-1]]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_search_ends_when_its_visitor_leaves(
    at_many: Browser, scattered: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless(*_: object) -> Found:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setattr(live, "read_on", endless)
    stream = Stream(at_many, "/live/many/search?q=needle&after=0.0.0.0")
    assert begun.wait(SECONDS)
    stream.close()
    assert ended.wait(SECONDS)


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
