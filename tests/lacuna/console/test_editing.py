"""Tests the changes that the console can make: forms, previews, confirmations, and the permissions that they need."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from lacuna.agent.security.settings import SecuritySettings
from lacuna.console import app
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.apis.test_share_model import Stage
from tests.agent.harness import RawClient
from tests.lacuna import clients
from tests.lacuna.conftest import with_lasting_leases
from tests.lacuna.console.conftest import (
    HOSTILE,
    SECONDS,
    Answer,
    Browser,
    read,
    served,
    transactional,
)
from tests.lacuna.console.test_messages import rows
from tests.lacuna.console.test_pages import plain

ROOT: Final = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with the topic `orders`: 20 records in each of two partitions, of which a group has read ten."""
    with Cluster() as running:
        with_lasting_leases(running)
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(40):
            producer.produce("orders", value=f"{number}", partition=number % 2)
        assert producer.flush(SECONDS) == 0
        read(running, "billing", "orders", 10)
        yield running


@pytest.fixture(scope="module")
def browser(cluster: Cluster) -> Iterator[Browser]:
    with served(cluster, may_write=True) as found:
        yield found


class Editor:
    """A visitor that changes something: it submits the form, reads the preview, and confirms the change."""

    def __init__(self, browser: Browser, path: str) -> None:
        self._browser = browser
        self._path = path
        self.page = browser.get(path)
        self._cookie = self.page.headers["set-cookie"].partition(";")[0]

    def hidden(self) -> dict[str, str]:
        """Return the hidden fields of the page's form."""
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', self.page.text)
        return {name: html.unescape(value) for name, value in found}

    def send(self, fields: Mapping[str, str] | None = None) -> Answer:
        """Submit the page's form, and open the response."""
        body = urlencode(self.hidden() | dict(fields or {}))
        self.page = self._browser.post(self._path, body, cookie=self._cookie)
        return self.page

    def follow(self) -> str:
        """Return the text of the page to which the response leads."""
        assert self.page.code == HTTPStatus.SEE_OTHER, plain(self.page.text)
        return plain(self._browser.get(self.page.headers["location"], cookie=self._cookie).text)


def change(browser: Browser, path: str, **fields: str) -> tuple[str, str]:
    """Make a change. Return the text of its preview and of the page that follows."""
    editor = Editor(browser, path)
    preview = editor.send(fields)
    assert preview.code == HTTPStatus.OK, plain(preview.text)
    shown = plain(preview.text)
    editor.send()
    return shown, editor.follow()


def refusal(browser: Browser, path: str, **fields: str) -> str:
    """Return why a form is refused. The form must keep its fields."""
    answer = Editor(browser, path).send(fields)
    assert answer.code == HTTPStatus.BAD_REQUEST
    for value in fields.values():
        assert html.escape(value) in answer.text
    (reason,) = re.findall(r'class="note bad" role="alert">([^<]+)<', answer.text)
    return html.unescape(reason)


@pytest.mark.slow
def test_a_topic_from_its_beginning_to_its_end(browser: Browser, cluster: Cluster) -> None:
    configs = "retention.ms=7d\nmax.message.bytes=2MiB"
    shown, after = change(browser, "/edit/topic", name="news", partitions="2", configs=configs)
    assert "Creates the topic news. Partitions: 2." in shown
    assert "max.message.bytes 2097152 1048588" in shown
    assert "Created the topic news." in after
    assert "retention.ms 604800000 7 d" in after

    form = browser.get("/edit/topics/news/configs").text
    assert "max.message.bytes=2097152\nretention.ms=604800000" in form
    shown, after = change(
        browser, "/edit/topics/news/configs", configs="retention.ms=1h\ncleanup.policy=compact"
    )
    assert "cleanup.policy delete compact" in shown
    assert "max.message.bytes 2097152 1048588" in shown
    assert "retention.ms 604800000 3600000" in shown
    assert "Changed the configs of news." in after
    assert "retention.ms 3600000 1 h" in after

    shown, after = change(browser, "/edit/topics/news/partitions", count="5")
    assert "from 2 to 5" in shown
    assert "news now has 5 partitions." in after

    editor = Editor(browser, "/edit/topics/news/record")
    editor.send({"key": "k", "value": "one\r\ntwo", "headers": "trace: 7"})
    after = editor.follow()
    assert "The record has offset 0 in partition" in after
    assert "Key text, 1 B k Value text, 7 B one two Headers trace: 7" in after
    partition = re.findall(r"in partition (\d)\.", after)[0]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([Position("news", int(partition), 0)])
    found = consumer.poll(SECONDS)
    consumer.close()
    assert found is not None
    assert (found.key(), found.value(), found.headers()) == (b"k", b"one\ntwo", [("trace", b"7")])
    # The partition is the one that other clients would choose.
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    arrived: list[int | None] = []
    producer.produce(
        "news", key=b"k", value=b"x", on_delivery=lambda _, m: arrived.append(m.partition())
    )
    producer.flush(SECONDS)
    assert arrived == [int(partition)]

    shown, after = change(browser, "/edit/topics/news/delete", name="news")
    assert "This cannot be undone." in shown
    assert "Deleted the topic news." in after
    assert browser.get("/topics/news").code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
def test_a_record_without_a_value(browser: Browser) -> None:
    editor = Editor(browser, "/edit/topics/orders/record")
    editor.send({"key": "", "value": "ignored", "is_null": "yes", "partition": "1"})
    after = editor.follow()
    assert "offset 20 in partition 1" in after
    assert "null (a tombstone" in after


def test_records_are_trimmed(browser: Browser) -> None:
    shown, after = change(browser, "/edit/topics/orders/trim", before="5", partition="1")
    assert "Deletes the records of orders at 5 offsets" in shown
    assert "1 0 5 5" in shown
    assert "Trimmed orders. Partitions: 1." in after
    shown, _ = change(browser, "/edit/topics/orders/trim", before="end-17")
    assert "0 0 3 3" in shown
    assert rows(browser.get("/topics/orders/0/messages?from=0&count=1").text) == [(0, 3)]
    assert "Nothing would be deleted" in refusal(
        browser, "/edit/topics/orders/trim", before="earliest"
    )
    assert "is not a position" in refusal(browser, "/edit/topics/orders/trim", before="noon")
    assert "0 to 1, not 7" in refusal(
        browser, "/edit/topics/orders/trim", before="end", partition="7"
    )


def committed(cluster: Cluster, group: str) -> list[int]:
    """Return a group's committed offsets in `orders`."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    found = consumer.committed([Position("orders", each) for each in range(2)], SECONDS)
    consumer.close()
    return [each.offset for each in found]


def test_a_group_is_reset_and_deleted(browser: Browser, cluster: Cluster) -> None:
    path = "/edit/group/reset?id=billing"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bounds"})
    bounds = [consumer.get_watermark_offsets(Position("orders", each)) for each in range(2)]
    consumer.close()
    starts, near_ends = [start for start, _ in bounds], [end - 2 for _, end in bounds]
    for to, expected in (("7", [7, 7]), ("2001-01-01", starts), ("end-2", near_ends)):
        shown, after = change(browser, path, to=to)
        assert "Moves the committed offsets of billing." in shown
        assert "Reset billing." in after
        assert committed(cluster, "billing") == expected
    shown, _ = change(browser, path, to="earliest", topic="orders")
    moves = [f"orders {p} {near_ends[p]} {starts[p]} {starts[p] - near_ends[p]}" for p in range(2)]
    assert " ".join(moves) in shown
    assert "does not exist" in plain(
        Editor(browser, path).send({"to": "end", "topic": "missing"}).text
    )

    editor = Editor(browser, "/edit/group/delete?id=billing")
    assert "Deletes the group billing with its committed offsets (partitions: 2)" in plain(
        editor.page.text
    )
    editor.send()
    assert "Deleted the group billing." in editor.follow()
    assert browser.get("/groups/group?id=billing").code == HTTPStatus.NOT_FOUND


async def hold_records(cluster: Cluster, look: Callable[[Stage], None]) -> Stage:
    """Let a share group member hold records while `look` looks at the group's page, and then leave."""
    client = await RawClient.connect(int(cluster.bootstrap.rpartition(":")[2]))
    stage = Stage(client, 50)
    await stage.begin()
    await stage.go_on("log 5\na joins\na gets 3 -> 0-2x1\na acks 1=release")
    await asyncio.to_thread(look, stage)
    await stage.go_on("a leaves")
    await client.close()
    return stage


def test_a_share_group_is_shown_and_reset(browser: Browser, cluster: Cluster) -> None:
    def look(stage: Stage) -> None:
        shown = plain(browser.get(f"/groups/group?id={stage.group}").text)
        assert re.search(rf"{stage.topic} 0 0 2 1 0 1 5", shown), shown
        assert f"{stage.topic} 0" in shown.partition("Members")[2]
        assert re.search(rf"{stage.group} Stable share 1 5", plain(browser.get("/groups").text))

    stage = asyncio.run(hold_records(cluster, look))
    shown, after = change(browser, f"/edit/group/reset?id={stage.group}", to="end-1")
    assert f"Moves {stage.group} to other offsets" in shown
    assert re.search(rf"{stage.topic} 0 0 4 \+4", shown)
    assert f"Reset {stage.group}." in after
    assert re.search(rf"{stage.topic} 0 4 0 0 0 0 1", after)
    path = f"/edit/group/offsets?id={stage.group}"
    shown, after = change(browser, path, topic=stage.topic)
    assert re.search(
        rf"Deletes the offsets of {stage.group} in {stage.topic}.* {stage.topic} 0 4", shown
    )
    assert f"Deleted the offsets of {stage.group} in {stage.topic}." in after
    assert f"no offsets in {stage.topic}" in Editor(browser, path).send({"topic": stage.topic}).text


def test_a_group_with_members_is_left_alone(browser: Browser, cluster: Cluster) -> None:
    consumer = clients.member(cluster.bootstrap, HOSTILE, "orders")
    for what in ("reset", "delete"):
        answer = browser.get(f"/edit/group/{what}?id={quote(HOSTILE)}")
        assert answer.code == HTTPStatus.BAD_REQUEST
        assert "stop its consumers first" in answer.text
        assert "<script>alert" not in answer.text
    consumer.close()


@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        (
            "/edit/topic",
            {"name": "orders", "partitions": "1"},
            "a topic with this name already exists",
        ),
        ("/edit/topic", {"name": "a b", "partitions": "1"}, "topic a b: "),
        ("/edit/topic", {"name": "x", "partitions": "many"}, "enter a whole number"),
        ("/edit/topic", {"name": "x", "partitions": "1", "configs": "colour=red"}, "Unknown topic"),
        ("/edit/topic", {"name": "x", "partitions": "1", "configs": "colour"}, "enter NAME=VALUE"),
        ("/edit/topics/orders/configs", {"configs": ""}, "Nothing would change"),
        ("/edit/topics/orders/configs", {"configs": "retention.ms=x"}, "Invalid value x"),
        ("/edit/topics/orders/partitions", {"count": "1"}, "partitions of orders: "),
        ("/edit/topics/orders/delete", {"name": "order"}, "enter orders"),
        ("/edit/topics/orders/record", {"headers": "none"}, "enter NAME: VALUE"),
        ("/edit/topics/orders/record", {"partition": "9"}, "does not exist"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_form_stays(
    browser: Browser, path: str, fields: dict[str, str], reason: str
) -> None:
    assert reason in refusal(browser, path, **fields)


def test_a_confirmation_is_for_what_was_previewed(browser: Browser) -> None:
    path = "/edit/topic"
    editor = Editor(browser, path)
    wanted = {"name": "one", "partitions": "1", "configs": ""}
    assert editor.send(wanted).code == HTTPStatus.OK
    for other in ({"name": "two"}, {"token": ""}, {"token": "0" * 64}, {"more": "x"}):
        changed = Editor(browser, path)
        changed.send(wanted)
        assert changed.send(other).code == HTTPStatus.FORBIDDEN
    stranger = Editor(browser, path)
    stranger.page = editor.page  # with another browser's token
    assert stranger.send().code == HTTPStatus.FORBIDDEN
    assert browser.post(path, urlencode(editor.hidden()), origin="http://evil.example").code == 403
    assert browser.get("/topics/one").code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
def test_an_abort(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders")
    producer = transactional(cluster, "holder")
    producer.begin_transaction()
    clients.send(producer, "orders", ["1"])
    path = "/transactions/abort?id=holder"
    with served(cluster, may_write=True) as browser:
        assert "Abort…" in browser.get("/transactions").text
        editor = Editor(browser, path)
        assert "HttpOnly" in editor.page.headers["set-cookie"]
        assert "SameSite=strict" in editor.page.headers["set-cookie"]
        assert "All of its records are dropped" in plain(editor.page.text)
        again = Editor(browser, path)
        editor.send()
        assert "Aborted the transaction of holder." in editor.follow()
        assert "No transaction is open" in browser.get("/transactions").text
        assert again.send().code == HTTPStatus.NOT_FOUND

        # If the producer of an aborted transaction continues, that is another transaction.
        stale = transactional(cluster, "holder")
        stale.begin_transaction()
        clients.send(stale, "orders", ["2"])
        editor = Editor(browser, path)
        stale.commit_transaction()
        stale.begin_transaction()
        clients.send(stale, "orders", ["3"])
        refused = editor.send()
        assert refused.code == HTTPStatus.BAD_REQUEST
        assert "nothing was aborted" in refused.text
        assert "holder" in browser.get("/transactions").text
        stale.abort_transaction()


def test_the_tasks_of_an_operator_name_what_the_console_has() -> None:
    """Each page and button in docs/tasks.md has the name that the console shows."""
    text = (ROOT / "docs" / "tasks.md").read_text()
    pages = {each.title for each in app._PAGES}
    links = {each.title for each in app._EDITS} | {"Messages", "Explain offset", "Abort…"}
    found = re.findall(r"^\| .+ \| `lacuna .+` \| (.+) \|$", text, re.MULTILINE)
    assert len(found) >= 25
    for way in found:
        page, *subjects = way.partition(",")[0].split(
            " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
        )
        assert page in pages
        if subjects:
            last = subjects.pop()
            assert last in links or last in ("orders", "billing"), way
            assert set(subjects) <= {"orders", "invoices", "billing", "shop", "0"}


def test_what_was_done_is_only_said_by_the_console(browser: Browser) -> None:
    assert "You are hacked" not in browser.get("/topics?said=You+are+hacked&seal=0").text


@pytest.mark.slow
def test_without_the_right_to_change_there_are_no_forms(cluster: Cluster) -> None:
    with served(cluster) as browser:
        for each in app._EDITS:
            answer = browser.get(each.address(topic="orders", group="g"))
            assert answer.code == HTTPStatus.BAD_REQUEST
            assert "read-only" in answer.text
            assert browser.post(each.address(topic="orders", group="g"), "").code == 400
        for page in ("/topics", "/topics/orders", "/access"):
            assert "/edit/" not in browser.get(page).text


def test_users_and_quotas(browser: Browser) -> None:
    shown = plain(browser.get("/access").text)
    assert "this console has no logins" in shown
    assert "without an authorizer" in shown
    assert "There are no quotas." in shown

    editor = Editor(browser, "/edit/user")
    assert "passwords differ" in plain(
        editor.send({"user": "zoe", "password": "one", "again": "two"}).text
    )
    assert 'value="one"' not in editor.page.text
    editor.send({"user": "zoe", "password": "one", "again": "one"})
    assert "zoe can now authenticate with this password." in editor.follow()
    assert "zoe SCRAM-SHA-256, SCRAM-SHA-512" in plain(browser.get("/access").text)
    editor = Editor(browser, "/edit/user/remove?user=zoe")
    editor.send()
    assert "Removed the user zoe." in editor.follow()
    assert "zoe" not in plain(browser.get("/access").text)

    shown, after = change(
        browser, "/edit/quota", user="(default)", quota="producer_byte_rate", value="1,000,000"
    )
    assert "Sets producer_byte_rate for user (default) to 1,000,000 bytes per second." in shown
    assert "(default) \N{EN DASH} producer_byte_rate 1000000 bytes per second" in after
    remove = html.unescape(
        re.findall(r'href="(/edit/quota/remove[^"]+)"', browser.get("/access").text)[0]
    )
    editor = Editor(browser, remove)
    editor.send()
    assert "There are no quotas." in editor.follow()
    assert "a client id" in refusal(browser, "/edit/quota", quota="producer_byte_rate", value="1")
    assert "not a number" in refusal(
        browser, "/edit/quota", client_id="c", quota="producer_byte_rate", value="fast"
    )


SUPER: Final = "User:ANONYMOUS"


@pytest.mark.slow
def test_acls() -> None:
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users=SUPER)
    with (
        Cluster(parts=AgentParts(security=security)) as running,
        served(running, may_write=True) as browser,
    ):
        assert "There are no ACLs" in browser.get("/access").text
        choices = "permission=allow&operation=Read&resource=topic&pattern=literal"
        acl = dict(parse_qsl(choices))
        wanted = acl | {"principal": "User:alice", "name": "orders", "pattern": "prefixed"}
        shown, after = change(browser, "/edit/acl", **wanted, host="*")
        said = "allow User:alice from *: Read on topic orders and all that begin with it."
        assert f"Adds the ACL: {said}" in shown
        assert f"Added the ACL: {said}" in after
        assert "User:alice allow Read topic orders and all that begin with it" in after
        text = browser.get("/access").text
        editor = Editor(
            browser, html.unescape(re.findall(r'href="(/edit/acl/remove[^"]+)"', text)[0])
        )
        editor.send()
        assert "There are no ACLs" in editor.follow()
        assert "not a principal" in refusal(browser, "/edit/acl", principal="alice", **acl)
        of_a = acl | {"principal": "User:a"}
        assert "no name" in refusal(browser, "/edit/acl", **of_a)
        assert "one of the choices" in refusal(
            browser, "/edit/acl", **(of_a | {"operation": "Fly"})
        )
