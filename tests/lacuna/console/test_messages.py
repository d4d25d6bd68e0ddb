"""Tests the page of messages: decoding, filters, seeking, bounds, and new messages."""

import http.client
import json
import re

import pytest

from lacuna.console import formats, limits
from tests.lacuna.console.conftest import HOSTILE, SECONDS, Browser
from tests.lacuna.console.test_pages import plain

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
