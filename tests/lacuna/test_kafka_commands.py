"""Tests `lacuna topics | groups | transactions` on a cluster over a real Kafka connection."""

from __future__ import annotations

import asyncio
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import dns.message
import dns.nameserver
import dns.rcode
import dns.resolver
import dns.rrset
import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from lacuna.base.errors import UserError
from lacuna.cli import resetting
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.operating.srv import resolved
from lacuna.testing.ports import lasting_ports
from lacuna.wire.messages import streams_groups
from lacuna.wire.messages.groups import ListedGroup, ListGroupsResponse
from lacuna.wire.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT_REQUEST,
    SHARE_GROUP_HEARTBEAT_RESPONSE,
    ShareGroupHeartbeatRequest,
)
from tests.lacuna import clients
from tests.lacuna.console.conftest import served

if TYPE_CHECKING:
    from lacuna.testing import Cluster
    from tests.lacuna.conftest import Command, NewTopic, Refusal


class Nameserver(socketserver.BaseRequestHandler):
    """Knows one SRV name, whose first target does not listen."""

    ports: ClassVar[list[int]] = []

    def handle(self) -> None:
        data, answers = self.request
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query)
        (question,) = query.question
        if str(question.name) == "_kafka._tcp.lacuna.test.":
            targets = [
                f"{priority} 5 {port} localhost." for priority, port in enumerate(self.ports)
            ]
            response.answer.append(dns.rrset.from_text(question.name, 60, "IN", "SRV", *targets))
        else:
            response.set_rcode(dns.rcode.NXDOMAIN)
        answers.sendto(response.to_wire(), self.client_address)


@pytest.fixture
def nameserver(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Nameserver]]:
    with socketserver.UDPServer(("127.0.0.1", 0), Nameserver) as server:
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = [
            dns.nameserver.Do53Nameserver("127.0.0.1", server.server_address[1])
        ]
        monkeypatch.setattr(dns.resolver, "default_resolver", resolver)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Nameserver
        server.shutdown()
        thread.join()


def test_an_srv_name_stands_for_the_agents_that_it_lists(
    lacuna: Command, refused: Refusal, lacuna_cluster: Cluster, nameserver: type[Nameserver]
) -> None:
    (nobody,) = lasting_ports(1)
    port = int(lacuna_cluster.bootstrap.rpartition(":")[2])
    nameserver.ports = [nobody, port]
    addresses = resolved("a:1, _kafka._tcp.lacuna.test,b")
    assert addresses == f"a:1,localhost:{nobody},localhost:{port},b"
    assert lacuna("topics", "list", "-b", resolved("_kafka._tcp.lacuna.test")).code == 0
    with pytest.raises(UserError, match=r"_kafka\._tcp\.other\.test cannot be resolved: .* Check"):
        resolved("_kafka._tcp.other.test")
    unknown = "_kafka._tcp.invalid"
    for command in (("topics", "list", "-b", unknown), ("import", "status", "--from", unknown)):
        message = refused(*command)  # by the machine's resolver
        assert f"the SRV name {unknown} cannot be resolved: " in message


def test_the_life_of_a_topic(ask: Command, refuse: Refusal) -> None:
    created = ask("topics", "create", "life", "-p", "3", "-c", "max.message.bytes=2000000")
    assert created.out.startswith("created life: 3 partitions, id ")
    topic_id = created.out.split()[-1]
    assert ["life", "3", "0", "0", "", "7d", "delete", topic_id] in ask("topics", "list").rows
    described = ask("topics", "describe", "life").rows
    assert described[0] == [f"life  {topic_id}"]
    assert [row[0] for row in described[2:5]] == ["0", "1", "2"]
    assert ["max.message.bytes", "2000000", "here"] in described
    assert ["cleanup.policy", "delete", "default"] in described
    assert "a topic with this name already exists" in refuse("topics", "create", "life")
    assert ask("topics", "delete", "life", "--yes").out == "deleted life\n"
    gone = "topic life: the topic does not exist; `lacuna topics list` lists the topics"
    assert refuse("topics", "describe", "life") == gone
    assert refuse("topics", "delete", "life", "--yes") == gone


def test_a_topic_id_has_one_spelling(ask: Command, lacuna_cluster: Cluster) -> None:
    """It is the one that Kafka's own tools use. Checkpoints and exports store it, too."""
    topic_id = ask("topics", "create", "spelled").out.split()[-1]
    assert topic_id in [row[-1] for row in ask("topics", "list").rows]
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    described = admin.describe_topics(TopicCollection(["spelled"]))["spelled"].result()
    # librdkafka writes + and / where Kafka writes - and _.
    assert str(described.topic_id).translate(str.maketrans("+/", "-_")) == topic_id
    with served(lacuna_cluster) as browser:
        assert f"Topic id <code>{topic_id}</code>" in browser.get("/topics/spelled").text


def test_internal_topics_are_described_but_not_listed(ask: Command, refuse: Refusal) -> None:
    described = ask("topics", "describe", "__consumer_offsets").rows
    assert ["cleanup.policy", "compact", "here"] in described
    assert [row[0] for row in described[2:52]] == [str(index) for index in range(50)]
    assert "derived from the control plane's state" in refuse(
        "topics", "delete", "__consumer_offsets", "--yes"
    )
    assert not [row[0] for row in ask("topics", "list").rows if row[0].startswith("__")]


def test_a_topic_that_is_refused(ask: Command, refuse: Refusal) -> None:
    assert "ASCII" in refuse("topics", "create", "bad name")
    assert "Value must be at least 1" in refuse("topics", "create", "t", "-c", "segment.ms=0")
    assert "Unknown topic config name: no.such" in refuse(
        "topics", "create", "t", "-c", "no.such=1"
    )
    assert "use NAME=VALUE" in refuse("topics", "create", "t", "-c", "segment.ms")
    assert all(row[0] != "t" for row in ask("topics", "list").rows)


@pytest.mark.slow
def test_offsets_of_an_open_transaction(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """S3: log start, last stable offset and high watermark differ."""
    topic = lacuna_topic()
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["p"])
    producer = clients.opened(lacuna_cluster.bootstrap, "offsets", topic, ["a", "b"])
    rows = ask("topics", "describe", topic).rows
    assert rows[1] == ["partition", "agent", "log start", "last stable", "high watermark"]
    assert rows[2][2:] == ["0", "1", "3"]
    producer.abort_transaction(60)


@pytest.mark.slow
def test_a_group_and_its_lag(
    ask: Command, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["a", "b", "c"])
    consumer = clients.member(lacuna_cluster.bootstrap, "lagging", topic)
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    rows = ask("groups", "describe", "lagging").rows
    assert rows[0] == ["lagging: Stable"]
    assert rows[2][1] == "rdkafka"
    assert rows[-2:] == [
        ["topic", "partition", "committed", "last stable", "lag"],
        [topic, "0", "1", "3", "2"],
    ]
    assert ["lagging", "Stable", "1", "2", "consumer", "classic"] in ask("groups", "list").rows
    assert "the group still has members" in refuse("groups", "delete", "lagging")
    forget = ("groups", "delete-offsets", "lagging", "--topic", topic)
    assert "members of the group still read the topic" in refuse(*forget)
    consumer.close()
    assert ask("groups", "describe", "lagging").rows[0] == ["lagging: Empty"]
    assert ask("groups", "delete", "lagging").out == "deleted lagging\n"
    gone = "group lagging: the group does not exist; `lacuna groups list` lists the groups"
    assert refuse("groups", "describe", "lagging") == gone
    assert refuse("groups", "delete", "lagging") == gone
    clients.commit(lacuna_cluster.bootstrap, "lagging", topic, 2)
    assert ask(*forget).rows == [["topic", "partition", "deleted"], [topic, "0", "2"]]
    assert f"group lagging has no offsets in {topic}" in refuse(*forget)


def test_an_operator_aborts_a_transaction(
    ask: Command, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """S21: WriteTxnMarkers aborts the whole transaction and fences its producer."""
    topics = [lacuna_topic(partitions=2), lacuna_topic()]
    producer = clients.transactional(lacuna_cluster.bootstrap, "hung")
    producer.begin_transaction()
    for topic, partition in ((topics[0], 1), (topics[0], 0), (topics[1], 0)):
        clients.send(producer, topic, ["x"], partition)
    (listed,) = [row for row in ask("transactions", "list").rows if row[0] == "hung"]
    assert listed[2] == "Ongoing"
    assert listed in ask("transactions", "list", "--state", "Ongoing").rows
    assert listed not in ask("transactions", "list", "--state", "Empty").rows
    assert listed not in ask("transactions", "list", "--longer-than-ms", "3600000").rows
    described = ask("transactions", "describe", "hung").rows
    assert described[1][0::3] == ["hung", "Ongoing"]
    assert sorted(described[3:]) == sorted([[topics[0], "0, 1"], [topics[1], "0"]])
    assert ask("transactions", "abort", "hung").out == "aborted the transaction of hung\n"
    assert ask("transactions", "describe", "hung").rows[1][3] == "CompleteAbort"
    assert "there is no transaction to abort" in refuse("transactions", "abort", "hung")
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    for topic in topics:
        rows = ask("topics", "describe", topic).rows
        assert rows[2][3] == rows[2][4] == "1"


def test_transactions_that_are_not_there(refuse: Refusal) -> None:
    assert "the states are Empty, Ongoing" in refuse("transactions", "list", "--state", "Hanging")
    for command in ("describe", "abort"):
        assert "`lacuna transactions list`" in refuse("transactions", command, "nobody")


def test_consumer_groups_show_epochs_and_targets(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """S26: a KIP-848 group is listed alongside a classic one, with its members and lag."""
    topic = lacuna_topic()
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["x"] * 5)
    for group in ("modern", "classic"):
        clients.commit(lacuna_cluster.bootstrap, group, topic, 3)
    kip_848 = {"group.protocol": "consumer"}
    consumer = clients.member(lacuna_cluster.bootstrap, "modern", topic, **kip_848)
    classic = clients.member(lacuna_cluster.bootstrap, "classic", topic)
    rows = ask("groups", "describe", "modern").rows
    assert rows[0] == ["modern: Stable, epoch 2, assigned by uniform in epoch 2"]
    assert rows[1] == ["member", "client", "host", "protocol", "epoch", "partitions", "target"]
    assert rows[2][1] == "rdkafka"
    assert rows[2][3:] == ["consumer", "2", f"{topic}: 0", f"{topic}: 0"]
    listed = ask("groups", "list").rows
    assert ["modern", "Stable", "1", "2", "consumer", "consumer"] in listed
    assert ["classic", "Stable", "1", "2", "consumer", "classic"] in listed
    for each in (consumer, classic):
        each.close()


async def test_a_group_is_found_although_a_later_agent_lists_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answers(*_: object) -> list[ListGroupsResponse]:
        found = ListGroupsResponse(groups=[ListedGroup("g")])
        return [found, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]

    monkeypatch.setattr(resetting, "ask_every_agent", answers)
    agents = Agents("127.0.0.1:1")
    assert await resetting._listed(agents, "g") == ListedGroup("g")
    with pytest.raises(UserError, match="groups"):
        await resetting._listed(agents, "h")


def test_share_groups_show_what_they_have_not_finished(
    ask: Command, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()

    async def beat(epoch: int) -> None:
        names = [topic] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest("queue", "me", epoch, subscribed_topic_names=names)
        async with KafkaConnection(Agents(lacuna_cluster.bootstrap)) as connection:
            answer = await connection.ask(
                SHARE_GROUP_HEARTBEAT_REQUEST, SHARE_GROUP_HEARTBEAT_RESPONSE, 1, request
            )
            assert not answer.error_code

    asyncio.run(beat(0))
    rows = ask("groups", "describe", "queue").rows
    assert rows[0] == ["queue: Stable, epoch 2, share group"]
    assert rows[2][0] == "me"
    assert rows[2][3:] == ["2", f"{topic}: 0"]
    assert ["queue", "Stable", "1", "0", "share", "share"] in ask("groups", "list").rows
    asyncio.run(beat(-1))
    reset = ("groups", "reset", "queue", "--topic", topic, "--to", "earliest")
    assert [topic, "0", "", "0"] in ask(*reset).rows
    assert ask(*reset, "--execute").out.endswith("reset queue in 1 partition\n")
    assert [topic, "0", "0", "0", "0", "0", "0", "0"] in ask("groups", "describe", "queue").rows
    delete = ("groups", "delete-offsets", "queue", "--topic", topic)
    assert ask(*delete).rows == [["topic", "partition", "deleted"], [topic, "0", "0"]]
    assert f"group queue has no offsets in {topic}; `lacuna groups describe" in refuse(*delete)


def test_streams_groups_show_their_tasks(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    reads = streams_groups.StreamsGroupHeartbeatRequestSubtopology("0", [topic])
    joining = streams_groups.StreamsGroupHeartbeatRequest(
        "counts",
        "me",
        rebalance_timeout_ms=1000,
        topology=streams_groups.StreamsGroupHeartbeatRequestTopology(subtopologies=[reads]),
        process_id="p",
    )

    async def join() -> None:
        async with KafkaConnection(Agents(lacuna_cluster.bootstrap)) as connection:
            answer = await connection.ask(
                streams_groups.STREAMS_GROUP_HEARTBEAT_REQUEST,
                streams_groups.STREAMS_GROUP_HEARTBEAT_RESPONSE,
                1,
                joining,
            )
            assert not answer.error_code

    clients.commit(lacuna_cluster.bootstrap, "counts", topic, 0)
    asyncio.run(join())
    rows = ask("groups", "describe", "counts").rows
    assert rows[0] == ["counts: Assigning, epoch 2, assigned by sticky in epoch 1"]
    assert rows[2][0] == "me"
    assert rows[2][3:] == ["p", "1", "", "", ""]
    assert rows[-1] == [topic, "0", "0", "0", "0"]
    assert ["counts", "Assigning", "1", "0", "streams", "streams"] in ask("groups", "list").rows


@pytest.mark.parametrize("name", ["[red]r[/red]", "[/b]", ":x:", "a\tb\nc", "\x1b[2Jé☃"])
def test_names_are_shown_as_they_are_and_control_characters_as_escapes(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic, name: str
) -> None:
    shown = name.replace("\t", r"\t").replace("\n", r"\n").replace("\x1b", r"\x1b")
    topic = lacuna_topic()
    clients.commit(lacuna_cluster.bootstrap, name, topic, 0)
    assert [shown, "Empty", "0", "0", "", "classic"] in ask("groups", "list").rows
    assert ask("groups", "describe", name).rows[0] == [f"{shown}: Empty"]
    assert ask("groups", "delete", name).out == f"deleted {shown}\n"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_name_that_the_encoding_of_the_output_lacks(
    lacuna_cluster: Cluster, lacuna_topic: NewTopic, encoding: str
) -> None:
    bootstrap = lacuna_cluster.bootstrap
    clients.commit(bootstrap, "snow\u2603", lacuna_topic(), 0)
    command = [sys.executable, "-m", "lacuna", "groups", "describe", "snow\u2603"]
    ran = subprocess.run(
        [*command, "--bootstrap", bootstrap],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.splitlines()[0] == rb"snow\u2603: Empty"


def test_a_name_that_is_not_utf_8(refuse: Refusal) -> None:
    assert "is not UTF-8" in refuse("topics", "create", "bad\udcff")
    assert "is not UTF-8" in refuse("groups", "describe", "bad\udcff")


def test_an_answer_that_is_no_message(refused: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(1024)
                connection.sendall(b"\0\0\0\x08\0\0\0\x01\x7f\xff\xff\xff")

        answering = threading.Thread(target=answer)
        answering.start()
        said = refused("topics", "list", LACUNA_BOOTSTRAP=f"{host}:{port}")
        answering.join()
    assert said.startswith("the server's response is invalid (")
    assert said.endswith("): check that the address is that of a Kafka server")


def test_a_long_line_for_a_script_is_one_line(ask: Command) -> None:
    name = "long-" * 20
    assert ask("topics", "create", name).out.count("\n") == 1
    assert ask("topics", "delete", name, "--yes").out == f"deleted {name}\n"
