"""Tests logging in: forms, sessions, attempts and their bounds."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.addresses import parse_address
from lacuna.base.client_security import ClientSecurity
from lacuna.base.sasl import scram
from lacuna.console import limits
from lacuna.console.doorkeeper import Quiet
from lacuna.operating.agents import AgentParts
from lacuna.operating.kafka import Agents
from lacuna.testing import Cluster
from tests.certificates import Authority
from tests.lacuna.conftest import with_lasting_leases
from tests.lacuna.console.conftest import SECONDS, Answer, Browser, Seconds, served


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("login")
    authority = Authority(folder)
    own = authority.issue("agent")
    (folder / "password").write_text("secret")
    (folder / "users").write_text(f'alice = "file:{folder}/password"\n')
    security = SecuritySettings(
        certificate=own.certificate,
        key=own.key,
        mechanisms="SCRAM-SHA-256",
        users_file=str(folder / "users"),
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
        producer.produce("orders", b"an order")
        assert producer.flush(60) == 0
        yield running


@pytest.fixture
def browser(cluster: Cluster) -> Iterator[Browser]:
    with served(cluster, may_write=True, seconds=Seconds()) as found:
        yield found


def log_in(browser: Browser, password: str, origin: str = "", **fields: str) -> Answer:
    page = browser.get("/login?" + urlencode({"to": "/topics?q=o"}))
    assert page.code == 200
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    assert set(form) == {"token", "to"}
    body = urlencode(form | {"user": "alice", "password": password} | fields)
    own = {"origin": origin} if origin else {}
    return browser.post("/login", body, cookie=cookie_of(page), **own)


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("path", ["/", "/topics?q=o", "/topics/orders/0/messages", "/clients"])
def test_nothing_is_shown_before(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert (answer.code, answer.headers["location"]) == (303, f"/login?{urlencode({'to': path})}")
    assert "orders" not in answer.text


def test_streams_and_forms_are_refused_before(browser: Browser) -> None:
    assert browser.get("/live").code == 401
    assert browser.get("/live/orders/0/messages").code == 401
    refused = browser.post("/transactions/abort", "id=x")
    assert (refused.code, refused.headers["location"]) == (303, "/login?to=%2F")


def test_who_has_logged_in_reads_as_that_user(browser: Browser) -> None:
    done = log_in(browser, "secret")
    assert (done.code, done.headers["location"]) == (303, "/topics?q=o")
    set_cookie = done.headers["set-cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=strict" in set_cookie
    assert "Secure" not in set_cookie
    assert "secret" not in set_cookie
    cookie = cookie_of(done)
    assert "an order" in browser.get("/topics/orders/0/messages", cookie=cookie).text
    page = browser.get("/", cookie=cookie)
    assert "Logged in as alice" in page.text
    form = dict(re.findall(r'name="(token)" value="([^"]*)"', page.text))
    both = f"{cookie}; {cookie_of(page)}"
    assert browser.post("/logout", "token=wrong", cookie=both).code == 403
    assert browser.post("/logout", urlencode(form), cookie=both).headers["location"] == "/login"
    assert browser.get("/", cookie=cookie).code == 303


def test_the_cookie_is_for_tls_alone_if_the_browser_uses_it(browser: Browser) -> None:
    done = log_in(browser, "secret", origin=f"https://{browser.address}")
    assert "Secure" in done.headers["set-cookie"]


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_it_leads_to_its_own_pages_only(browser: Browser, to: str) -> None:
    assert log_in(browser, "secret", to=to).headers["location"] == "/"


def test_guessing_is_made_slow(browser: Browser) -> None:
    for _ in range(4):
        wrong = log_in(browser, "wrong")
        assert wrong.code == 403
        assert (
            "set-cookie" not in wrong.headers or "lacuna_login" not in wrong.headers["set-cookie"]
        )
    answer = log_in(browser, "secret")
    assert answer.code == 429
    assert "try again in" in answer.text


def test_a_form_of_another_browser_is_refused(browser: Browser) -> None:
    assert log_in(browser, "secret", token="0" * 64).code == 403


def test_without_sasl_nobody_logs_in(lacuna_cluster: Cluster) -> None:
    with served(lacuna_cluster) as browser:
        assert browser.get("/").code == 200
        assert browser.get("/login").code == 404


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
        found[-1].sendall(said)  # before the next one takes the place of the first
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
