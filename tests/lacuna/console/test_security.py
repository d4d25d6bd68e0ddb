"""Tests the answers to other sites, other machines and invalid forms, and the bounds of one request."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lacuna.console import app, limits, site
from lacuna.console.site import Site
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import SECONDS, Browser, served, transactional
from tests.lacuna.console.test_pages import plain


@pytest.mark.parametrize("path", ["/", "/topics", "/static/console.css", "/metrics", "/nothing"])
def test_every_answer_has_the_headers(browser: Browser, path: str) -> None:
    headers = browser.get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:8088", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8088", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8088", 421),
        ("evil.example@localhost", 200),  # the name behind the @ counts, and no browser sends this
        ("127.0.0.1.evil.example", 421),
        ("[::1", 421),
    ],
)
def test_only_its_own_names_are_answered(browser: Browser, host: str, code: int) -> None:
    assert browser.get("/", host=host).code == code


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1"},  # another port
        {"sec_fetch_site": "cross-site"},
    ],
)
def test_a_post_comes_from_its_own_pages(browser: Browser, headers: dict[str, str]) -> None:
    assert browser.post("/transactions/abort", "", **headers).code == 403


def test_it_is_read_only_unless_that_was_switched_off(browser: Browser) -> None:
    assert browser.get("/transactions/abort?id=done").code == 400
    answer = browser.post("/transactions/abort", "id=done")
    assert answer.code == 400
    assert "read-only" in answer.text


def test_long_queries_and_other_methods_are_refused(browser: Browser) -> None:
    assert browser.get("/topics?q=" + "x" * 5000).code == 414
    assert browser._send("DELETE", "/topics/orders", None, {}).code == 405
    assert browser.post("/topics", "").code == 405


def test_an_abort(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders")
    producer = transactional(cluster, "holder")
    producer.begin_transaction()
    producer.produce("orders", value="1")
    producer.flush()
    with served(cluster, may_write=True) as browser:
        assert "Abort…" in browser.get("/transactions").text
        page = browser.get("/transactions/abort?id=holder")
        form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
        assert set(form) == {"token", "id", "producer_id", "producer_epoch", "began"}
        cookie = page.headers["set-cookie"].partition(";")[0]
        assert "HttpOnly" in page.headers["set-cookie"]
        assert "SameSite=strict" in page.headers["set-cookie"]

        path, body = "/transactions/abort", urlencode(form)
        without = urlencode(form | {"token": ""})
        assert browser.post(path, without, cookie=cookie).code == 403
        assert browser.post(path, body).code == 403  # the token is another browser's
        assert browser.post(path, body + "&x=" + "y" * 10_000, cookie=cookie).code == 400
        stale = browser.post(path, urlencode(form | {"began": "1"}), cookie=cookie)
        assert stale.code == 409
        assert "nothing was aborted" in stale.text
        assert "holder" in browser.get(path + "?id=holder").text

        done = browser.post(path, body, cookie=cookie)
        assert (done.code, done.headers["location"]) == (303, "/transactions?aborted=holder")
        assert browser.post(path, body, cookie=cookie).code == 409
        assert "No transaction is open" in browser.get("/transactions").text


def test_requests_wait_for_their_turn_and_none_takes_for_ever(
    filled: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), asyncio.Event()

    async def slow(_site: Site, _request: Request) -> Response:
        begun.set()
        await may_end.wait()
        return PlainTextResponse("")

    async def let_it_end() -> None:
        may_end.set()

    slow_page = site.Page("/slow", slow, site.leaves_out)
    monkeypatch.setattr(app, "_PAGES", (*app._PAGES, slow_page))
    monkeypatch.setattr(limits, "REQUESTS", 1)
    with served(filled) as browser, ThreadPoolExecutor(1) as thread:
        with monkeypatch.context() as short:
            short.setattr(limits, "ANSWER_SECONDS", 0.1)
            answer = browser.get("/slow")
        assert answer.code == 503
        assert "Too slow" in answer.text
        begun.clear()
        first = thread.submit(browser.get, "/slow")
        assert begun.wait(SECONDS)
        with monkeypatch.context() as short:
            short.setattr(limits, "WAIT_SECONDS", 0.1)
            second = browser.get("/slow")
        assert second.code == 503
        assert "Busy" in second.text
        assert browser.get("/static/console.css").code == 200
        filled.run(let_it_end())
        assert first.result(SECONDS).code == 200
        assert browser.get("/").code == 200


def test_a_page_has_a_hundred_groups_and_counts_some_lags(
    lacuna_private_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders", 3)
    monkeypatch.setattr(limits, "LAGS", 30)

    async def commit() -> None:
        control = cluster.embedded.control
        topic = control.cluster.topics_by_name["orders"]
        for number in range(250):
            offsets = [CommittedOffset(leader_epoch=-1) for _ in range(3)]
            for index, offset in enumerate(offsets):
                offset.partition.topic_id = topic.topic_id
                offset.partition.partition = index
            asked = OffsetCommit(group_id=f"g{number:03}", generation_id=-1, offsets=offsets)
            await control.call(Command(offset_commit=asked))

    cluster.run(commit())
    with served(cluster) as browser:
        text = browser.get("/groups").text
        assert text.count("<tr>") == 101
        assert "1 to 100 of 250 groups" in plain(text)
        assert "g009 Empty classic 3 0" in plain(text)
        assert "g010 Empty classic 3 \N{EN DASH}" in plain(text)
        assert browser.get("/groups?page=3").text.count("<tr>") == 51
        assert "201 to 250 of 250" in plain(browser.get("/groups?page=99999").text)
        assert browser.get("/groups?page=x").code == 400
        assert "10 groups" in plain(browser.get("/groups?q=g24").text)
