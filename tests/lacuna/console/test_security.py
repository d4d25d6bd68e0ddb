"""Tests which users, browsers, forms and connections the console accepts, and the limits on a request."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.addresses import parse_address
from lacuna.base.client_security import ClientSecurity
from lacuna.base.sasl import scram
from lacuna.console import app, limits, site
from lacuna.console.serving import Quiet
from lacuna.console.site import Site
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.controlplane.v1.share_pb2 import AlterShareOffsets, ShareOffset
from lacuna.operating.agents import AgentParts
from lacuna.operating.kafka import Agents
from lacuna.testing import Cluster
from tests.certificates import Authority
from tests.lacuna import clients
from tests.lacuna.conftest import users_file, with_lasting_leases
from tests.lacuna.console.conftest import SECONDS, Answer, Browser, Seconds, served
from tests.lacuna.console.test_pages import plain


@pytest.fixture(scope="module")
def sasl_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("login")
    authority = Authority(folder)
    own = authority.issue("agent")
    security = SecuritySettings(
        certificate=own.certificate,
        key=own.key,
        mechanisms="SCRAM-SHA-256",
        users_file=users_file(folder, "alice"),
    )
    listener = Listener("SASL_SSL", Protocol.SASL_SSL)
    parts = AgentParts(agent=AgentSettings(listeners=(listener,)), security=security)
    with Cluster(parts=parts) as running:
        with_lasting_leases(running)
        running.create_topic("orders")
        as_alice = ClientSecurity(
            protocol="SASL_SSL",
            authorities=authority.path,
            credentials=scram("SCRAM-SHA-256", "alice", "secret"),
        )
        producer = Producer(Agents(running.bootstrap, as_alice).librdkafka())
        clients.send(producer, "orders", ["an order"])
        yield running


@pytest.fixture
def at_login(sasl_cluster: Cluster) -> Iterator[Browser]:
    with served(sasl_cluster, may_write=True, seconds=Seconds()) as found:
        yield found


def log_in(at_login: Browser, password: str, origin: str = "", **fields: str) -> Answer:
    page = at_login.get("/login?" + urlencode({"to": "/topics?q=o"}))
    assert page.code == 200
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    assert set(form) == {"token", "to"}
    body = urlencode(form | {"user": "alice", "password": password} | fields)
    own = {"origin": origin} if origin else {}
    return at_login.post("/login", body, cookie=cookie_of(page), **own)


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("path", ["/", "/topics?q=o", "/topics/orders/0/messages", "/clients"])
def test_nothing_is_shown_before(at_login: Browser, path: str) -> None:
    answer = at_login.get(path)
    assert (answer.code, answer.headers["location"]) == (303, f"/login?{urlencode({'to': path})}")
    assert "orders" not in answer.text


def test_streams_and_forms_are_refused_before(at_login: Browser) -> None:
    assert at_login.get("/live").code == 401
    assert at_login.get("/live/orders/0/messages").code == 401
    refused = at_login.post("/transactions/abort", "id=x")
    assert (refused.code, refused.headers["location"]) == (303, "/login?to=%2F")


@pytest.mark.slow
def test_who_has_logged_in_reads_as_that_user(at_login: Browser) -> None:
    done = log_in(at_login, "secret")
    assert (done.code, done.headers["location"]) == (303, "/topics?q=o")
    set_cookie = done.headers["set-cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=strict" in set_cookie
    assert "Secure" not in set_cookie
    assert "secret" not in set_cookie
    cookie = cookie_of(done)
    assert "an order" in at_login.get("/topics/orders/0/messages", cookie=cookie).text
    page = at_login.get("/", cookie=cookie)
    assert '<span class="user" title="Logged in as">alice</span>' in page.text
    form = dict(re.findall(r'name="(token)" value="([^"]*)"', page.text))
    both = f"{cookie}; {cookie_of(page)}"
    assert at_login.post("/logout", "token=wrong", cookie=both).code == 403
    assert at_login.post("/logout", urlencode(form), cookie=both).headers["location"] == "/login"
    assert at_login.get("/", cookie=cookie).code == 303


def test_the_cookie_is_for_tls_alone_if_the_browser_uses_it(at_login: Browser) -> None:
    done = log_in(at_login, "secret", origin=f"https://{at_login.address}")
    assert "Secure" in done.headers["set-cookie"]


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_it_leads_to_its_own_pages_only(at_login: Browser, to: str) -> None:
    assert log_in(at_login, "secret", to=to).headers["location"] == "/"


@pytest.mark.slow
def test_guessing_is_made_slow(at_login: Browser) -> None:
    for _ in range(4):
        wrong = log_in(at_login, "wrong")
        assert wrong.code == 403
        assert (
            "set-cookie" not in wrong.headers or "lacuna_login" not in wrong.headers["set-cookie"]
        )
    answer = log_in(at_login, "secret")
    assert answer.code == 429
    assert "try again in" in answer.text


def test_a_form_of_another_browser_is_refused(at_login: Browser) -> None:
    assert log_in(at_login, "secret", token="0" * 64).code == 403


def test_without_sasl_nobody_logs_in(lacuna_cluster: Cluster) -> None:
    with served(lacuna_cluster) as at_login:
        assert at_login.get("/").code == 200
        assert at_login.get("/login").code == 404


def test_passwords_are_not_shown() -> None:
    credentials = scram("SCRAM-SHA-256", "alice", "secret")
    assert "secret" not in repr(credentials)
    assert "secret" not in repr(ClientSecurity(protocol="SASL_SSL", credentials=credentials))


HALF = b"GET / HTTP/1.1\r\nHost: 127"


@contextmanager
def connections(browser: Browser, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    address = parse_address(browser.address)
    found = []
    for _ in range(count):
        found.append(socket.create_connection(address, SECONDS))
        found[-1].sendall(said)  # before the next one replaces the first
    yield found
    for each in found:
        each.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("bound", ["CONNECTIONS_OF_ADDRESS", "CONNECTIONS"])
def test_half_sent_heads_keep_nobody_out(
    filled: Cluster, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(limits, bound, 4)
    with served(filled) as browser, connections(browser, 6, HALF) as half:
        assert all(map(is_closed, half[:2]))
        assert browser.get("/").code == 200
        assert is_closed(half[2])


def test_idle_connections_keep_nobody_out(filled: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_OF_ADDRESS", 3)
    with served(filled) as browser:
        asked = f"GET /healthz HTTP/1.1\r\nHost: {browser.address}\r\n\r\n".encode()
        with connections(browser, 3, asked) as idle:
            assert all(each.recv(12).startswith(b"HTTP/1.1") for each in idle)
            assert browser.get("/").code == 200


def test_a_head_has_to_come_in_time(filled: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(filled) as browser:
        with monkeypatch.context() as short:
            short.setattr(limits, "HEAD_SECONDS", 0.1)
            for said in (HALF, b""):
                with connections(browser, 1, said) as (connection,):
                    assert is_closed(connection)
        assert browser.get("/").code == 200


def test_what_clients_can_repeat_is_logged_once_a_minute() -> None:
    quiet = Quiet()
    record = logging.makeLogRecord({"msg": "Invalid request", "created": 100.0})
    assert [quiet.filter(record) for _ in range(3)] == [True, False, False]
    record.created = 170.0
    assert quiet.filter(record)


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
        ("evil.example@localhost", 200),  # the name after the @ counts, and no browser sends this
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_pages_show_some_positions_of_share_groups(
    lacuna_private_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders", 3)
    monkeypatch.setattr(limits, "LAGS", 2)

    async def begin() -> None:
        control = cluster.embedded.control
        topic = control.cluster.topics_by_name["orders"]
        offsets = [
            ShareOffset(partition=TopicPartition(topic_id=topic.topic_id, partition=index))
            for index in range(3)
        ]
        for group_id in ("one", "two"):
            asked = AlterShareOffsets(group_id=group_id, offsets=offsets)
            await control.call(Command(alter_share_offsets=asked))

    cluster.run(begin())
    with served(cluster) as browser:
        shown = plain(browser.get("/groups").text)
        assert "one Empty share 3 0" in shown
        assert "two Empty share 0 \N{EN DASH}" in shown
        shown = plain(browser.get("/groups/group?id=one").text)
        assert re.search("orders 1 0 .*1 more partitions are not shown", shown)
        assert "orders 2 0" not in shown
