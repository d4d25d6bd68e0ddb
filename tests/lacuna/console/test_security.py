"""Tests the answers to other sites, other machines and invalid forms."""

import re
from urllib.parse import urlencode

import pytest

from lacuna.testing import Cluster
from tests.lacuna.console.conftest import Browser, served, transactional


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
