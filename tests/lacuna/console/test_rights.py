"""Tests a console for a cluster with ACLs: each user sees exactly what the agents show that user."""

from __future__ import annotations

import base64
import http.client
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.sasl import scram
from lacuna.console import limits
from lacuna.console.rights import RightsOfUsers
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.lacuna import clients
from tests.lacuna.conftest import users_file, with_lasting_leases
from tests.lacuna.console.conftest import (
    DAY_MS,
    SECONDS,
    Answer,
    Browser,
    Seconds,
    served,
    transactional,
)
from tests.lacuna.console.test_security import cookie_of, log_in

_ACLS: Final = (
    ("alice", ResourceType.TOPIC, "orders", AclOperation.READ),
    ("alice", ResourceType.GROUP, "billing", AclOperation.DESCRIBE),
    ("alice", ResourceType.TRANSACTIONAL_ID, "seller", AclOperation.DESCRIBE),
    ("watcher", ResourceType.TOPIC, "salaries", AclOperation.DESCRIBE),
    ("operator", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    ("operator", ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER),
    ("operator", ResourceType.TRANSACTIONAL_ID, "paymaster", AclOperation.DESCRIBE),
)
_PAGES: Final = (
    "/topics",
    "/topics/orders",
    "/topics/orders/0",
    "/topics/orders/0/messages",
    "/topics/orders/messages",
    "/holes?topic=orders",
    "/search?q=o",
    "/groups",
    "/groups/group?id=billing",
    "/transactions",
)
#: What only authorized users may learn: a topic, its group, and the producer that writes to it.
_SECRETS: Final = ("salaries", "payroll", "paymaster")


def as_user(cluster: Cluster, user: str, **more: Any) -> dict[str, str | int | float | bool]:
    """Return the client settings with which a user connects to the cluster."""
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": "secret",
        **more,
    }


def allow(admin: AdminClient, user: str, kind: ResourceType, name: str, to: AclOperation) -> None:
    """Allow a user to perform an operation."""
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", to, AclPermissionType.ALLOW
    )
    for done in admin.create_acls([binding]).values():
        done.result(SECONDS)


def member(cluster: Cluster, group: str, topic: str) -> Consumer:
    """A group's only member, which remains a member without polling."""
    lasting = {"session.timeout.ms": 1_800_000, "max.poll.interval.ms": DAY_MS}
    return clients.member(cluster.bootstrap, group, topic, **as_user(cluster, "admin"), **lasting)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two topics, each with a group and an open transaction. alice may see only those for orders."""
    folder = tmp_path_factory.mktemp("rights")
    names = ("admin", "alice", "newcomer", "nobody", "operator", "watcher")
    security = SecuritySettings(
        mechanisms="SCRAM-SHA-256",
        users_file=users_file(folder, *names),
        authorizer=STANDARD_AUTHORIZER,
        super_users="User:admin",
    )
    listener = Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT)
    parts = AgentParts(agent=AgentSettings(listeners=(listener,)), security=security)
    with ExitStack() as stack:
        running = with_lasting_leases(stack.enter_context(Cluster(parts=parts)))
        admin = AdminClient(as_user(running, "admin"))
        for acl in _ACLS:
            allow(admin, *acl)
        for topic, group, producer in (
            ("orders", "billing", "seller"),
            ("salaries", "payroll", "paymaster"),
        ):
            running.create_topic(topic)
            held = transactional(running, producer, **as_user(running, "admin"))
            held.begin_transaction()
            clients.send(held, topic, [f"in {topic}"])
            stack.callback(member(running, group, topic).close)
        yield running


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def browser(cluster: Cluster, seconds: Seconds) -> Iterator[Browser]:
    with served(cluster, may_write=True, seconds=seconds) as found:
        yield found


def get(browser: Browser, user: str, path: str) -> Answer:
    """Return the response that a user gets."""
    return browser.get(path, cookie=cookie_of(log_in(browser, "secret", user=user)))


@pytest.mark.slow
@pytest.mark.parametrize("path", _PAGES)
def test_a_user_sees_what_acls_allow(browser: Browser, path: str) -> None:
    answer = get(browser, "alice", path)
    assert answer.code == HTTPStatus.OK
    shown = {"/groups": "billing", "/transactions": "seller"}.get(path, "orders")
    assert shown in answer.text
    assert not [secret for secret in _SECRETS if secret in answer.text]


@pytest.mark.parametrize("path", ["/topics", "/groups", "/transactions", "/search?q=a"])
def test_a_user_without_acls_sees_nothing(browser: Browser, path: str) -> None:
    answer = get(browser, "nobody", path)
    assert answer.code == HTTPStatus.OK
    every = (*_SECRETS, "orders", "billing", "seller")
    assert not [name for name in every if name in answer.text]


@pytest.mark.parametrize(
    "path",
    [
        "/topics/salaries",
        "/topics/salaries/0",
        "/topics/salaries/messages",
        "/holes?topic=salaries",
        "/groups/group?id=payroll",
    ],
)
def test_what_may_not_be_described_does_not_exist(browser: Browser, path: str) -> None:
    there, missing = (
        get(browser, "alice", each)
        for each in (path, path.replace("salaries", "missing").replace("payroll", "missing"))
    )
    assert there.code == missing.code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/merges", "/clients"])
def test_the_cluster_is_for_who_may_describe_it(browser: Browser, path: str) -> None:
    refused = get(browser, "alice", path)
    assert refused.code == HTTPStatus.FORBIDDEN
    assert "Describe on the cluster" in refused.text
    assert get(browser, "operator", path).code == HTTPStatus.OK
    assert get(browser, "alice", "/").headers["location"] == "/topics"
    assert get(browser, "operator", "/").code == HTTPStatus.OK


@pytest.mark.slow
def test_describing_a_topic_is_not_reading_it(browser: Browser) -> None:
    topic = get(browser, "watcher", "/topics/salaries")
    assert topic.code == HTTPStatus.OK
    assert "cleanup.policy" not in topic.text
    for path in (
        "/topics/salaries/0",
        "/topics/salaries/0/messages",
        "/topics/salaries/messages",
        "/holes?topic=salaries",
    ):
        refused = get(browser, "watcher", path)
        assert refused.code == HTTPStatus.FORBIDDEN
        assert "Read on topic salaries" in refused.text


def test_the_tail_of_a_topic_is_for_its_readers(browser: Browser) -> None:
    for path in ("0/messages", "messages", "search?q=x"):
        assert get(browser, "watcher", f"/live/salaries/{path}").code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
def test_aborting_needs_what_kafka_asks_for(browser: Browser) -> None:
    assert "Abort…" not in get(browser, "alice", "/transactions").text
    refused = get(browser, "alice", "/transactions/abort?id=seller")
    assert refused.code == HTTPStatus.FORBIDDEN
    assert get(browser, "operator", "/transactions/abort?id=paymaster").code == HTTPStatus.OK
    hidden = get(browser, "operator", "/transactions/abort?id=seller")
    assert hidden.code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
def test_changes_need_what_kafka_asks_for(browser: Browser) -> None:
    for user, path, what in (
        ("alice", "/edit/topics/orders/record", "Write on topic orders"),
        ("alice", "/edit/topics/orders/configs", "AlterConfigs on topic orders"),
        ("alice", "/edit/topics/orders/partitions", "Alter on topic orders"),
        ("alice", "/edit/topics/orders/trim", "Delete on topic orders"),
        ("alice", "/edit/topics/orders/delete", "Delete on topic orders"),
        ("alice", "/edit/acl", "Alter on the cluster"),
        ("operator", "/edit/quota", "AlterConfigs on the cluster"),
    ):
        refused = get(browser, user, path)
        assert refused.code == HTTPStatus.FORBIDDEN
        assert what in refused.text
    assert "/edit/" not in get(browser, "alice", "/topics/orders").text
    for path in ("/edit/topics/salaries/trim", "/edit/group/delete?id=payroll"):
        assert get(browser, "alice", path).code == HTTPStatus.NOT_FOUND
    assert "/edit/acl" in get(browser, "operator", "/access").text


def test_an_agent_has_the_last_word_on_a_change(browser: Browser) -> None:
    """The console cannot know whether an ACL with a prefix allows a new topic."""
    cookie = cookie_of(log_in(browser, "secret", user="alice"))
    page = browser.get("/edit/topic", cookie=cookie)
    (token,) = re.findall(r'/edit/topic".*?name="token" value="([^"]*)"', page.text, re.DOTALL)
    body = urlencode({"token": token, "name": "new", "partitions": "1"})
    refused = browser.post("/edit/topic", body, cookie=f"{cookie}; {cookie_of(page)}")
    assert refused.code == HTTPStatus.FORBIDDEN
    assert "topic new: ACLs do not allow it" in refused.text


@pytest.mark.slow
def test_who_is_logged_in_is_shown(browser: Browser) -> None:
    cookie_of(log_in(browser, "secret", user="alice"))
    text = get(browser, "operator", "/access").text
    assert re.search(r">alice</th><td[^>]*>1<", text)
    assert re.search(r">operator <span class=.badge good.>you</span></th><td[^>]*>1<", text)
    assert "Describe on the cluster" in get(browser, "alice", "/access").text
    assert (
        '<span class="user" title="Logged in as">alice</span>'
        in get(browser, "alice", "/topics").text
    )


def test_a_change_of_acls_is_seen(cluster: Cluster, browser: Browser, seconds: Seconds) -> None:
    cookie = cookie_of(log_in(browser, "secret", user="newcomer"))
    assert "orders" not in browser.get("/topics", cookie=cookie).text
    admin = AdminClient(as_user(cluster, "admin"))
    allow(admin, "newcomer", ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
    while "orders" not in browser.get("/topics", cookie=cookie).text:
        seconds.pass_by(4)  # what is known about a user is at most three seconds old


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def test_metrics_are_for_who_may_describe_the_cluster(browser: Browser) -> None:
    asked = browser.get("/metrics")
    assert asked.code == HTTPStatus.UNAUTHORIZED
    assert asked.headers["www-authenticate"].startswith("Basic ")
    shown = browser.get("/metrics", authorization=basic("operator", "secret"))
    assert shown.code == HTTPStatus.OK
    assert "lacuna_" in shown.text
    refused = browser.get("/metrics", authorization=basic("alice", "secret"))
    assert refused.code == HTTPStatus.FORBIDDEN
    assert "lacuna_" not in refused.text
    cookie = cookie_of(log_in(browser, "secret", user="operator"))
    assert browser.get("/metrics", cookie=cookie).code == HTTPStatus.OK
    assert browser.get("/healthz").code == HTTPStatus.OK


def test_guessing_by_metrics_is_made_slow(browser: Browser) -> None:
    for _ in range(4):
        wrong = browser.get("/metrics", authorization=basic("operator", "wrong"))
        assert wrong.code == HTTPStatus.UNAUTHORIZED
    waits = browser.get("/metrics", authorization=basic("operator", "secret"))
    assert waits.code == HTTPStatus.TOO_MANY_REQUESTS


def test_one_users_password_does_not_excuse_guesses_at_anothers(browser: Browser) -> None:
    """Concurrent guesses do not evade the limit either."""
    for _ in range(4):
        for user, password in (("operator", "wrong"), ("alice", "secret")):
            answer = browser.get("/metrics", authorization=basic(user, password))
            assert answer.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    waits = browser.get("/metrics", authorization=basic("operator", "wrong"))
    assert waits.code == HTTPStatus.TOO_MANY_REQUESTS


def test_guesses_at_a_time_count_before_they_are_answered(browser: Browser) -> None:
    with ThreadPoolExecutor(12) as pool:
        asked = [
            pool.submit(browser.get, "/metrics", authorization=basic("operator", "wrong"))
            for _ in range(12)
        ]
        codes = [each.result().code for each in asked]
    assert codes.count(HTTPStatus.UNAUTHORIZED) <= 4
    assert set(codes) == {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS}


def test_a_stream_ends_with_the_login(cluster: Cluster, browser: Browser) -> None:
    cookie = cookie_of(log_in(browser, "secret", user="alice"))
    page = browser.get("/topics", cookie=cookie)
    (token,) = set(re.findall(r'name="token" value="([^"]*)"', page.text))
    connection = http.client.HTTPConnection(browser.address, timeout=SECONDS)
    path = "/live/orders/0/messages?isolation=read_uncommitted"  # a transaction is open
    connection.request("GET", path, headers={"cookie": cookie})
    stream = connection.getresponse()
    assert stream.status == HTTPStatus.OK
    producer = Producer(as_user(cluster, "admin"))
    clients.send(producer, "orders", ["before the logout"])
    while b"before the logout" not in (line := stream.readline()):
        assert line, "the stream ended"
    both = f"{cookie}; {cookie_of(page)}"
    body = urlencode({"token": token})
    assert browser.post("/logout", body, cookie=both).headers["location"] == "/login"
    clients.send(producer, "orders", ["after the logout"])
    assert b"after the logout" not in stream.read()


def test_whether_configs_are_shown_is_asked_in_lists_too(browser: Browser) -> None:
    assert "delete</td>" in get(browser, "admin", "/topics").text
    assert "delete</td>" not in get(browser, "watcher", "/topics").text


def test_slow_forms_keep_nobody_waiting(browser: Browser) -> None:
    host, _, port = browser.address.rpartition(":")
    head = (
        f"POST /login HTTP/1.1\r\nhost: {browser.address}\r\norigin: http://{browser.address}\r\n"
        "content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\nx"
    )
    with ExitStack() as stack:
        for _ in range(2 * limits.REQUESTS):
            slow = stack.enter_context(socket.create_connection((host, int(port))))
            slow.sendall(head.encode())
        assert log_in(browser, "secret").code == HTTPStatus.SEE_OTHER


def test_what_is_known_of_users_holds_no_passwords() -> None:
    users = RightsOfUsers(lambda: 0.0, has_acls=True)
    one, other = (scram("SCRAM-SHA-256", "alice", "secret") for _ in range(2))
    assert users._digest(one) == users._digest(other)
    assert users._digest(one) != users._digest(scram("SCRAM-SHA-256", "alice", "other"))


def test_without_a_login_acls_of_everybody_hold() -> None:
    """On a listener without SASL, console users are ANONYMOUS, as clients would be."""
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:admin")
    with Cluster(parts=AgentParts(security=security)) as running:
        running.create_topic("salaries")
        with served(running, may_write=True) as browser:
            assert "salaries" not in browser.get("/topics").text
            assert browser.get("/topics/salaries").code == HTTPStatus.NOT_FOUND
            assert browser.get("/clients").code == HTTPStatus.FORBIDDEN
            assert browser.get("/metrics").code == HTTPStatus.FORBIDDEN
            assert browser.get("/transactions/abort?id=x").code == HTTPStatus.FORBIDDEN
