"""Tests `lacuna produce` and `lacuna consume` as a shell user runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.housekeeping import HousekeepingSettings, MergeSettings
from lacuna.base.errors import UserError
from lacuna.cli.records.formats import parse_format, render_json, unescape
from lacuna.cli.records.input import json_records
from lacuna.cli.records.points import parse_from, parse_until
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.operating.agents import AgentParts
from lacuna.operating.points import Kind, Point
from lacuna.testing import Cluster
from tests.forked import Started, start_process
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, NewTopic, Refusal

HEADINGS = ["topic", "partition", "records", "first offset", "last offset"]
SECONDS = 60.0
NOW_MS = 1_795_700_000_000


@contextmanager
def running(cluster: Cluster, *arguments: str) -> Iterator[Started]:
    """Start a command with pipes to this process. End it on exit."""
    with start_process(
        [sys.executable, "-m", "lacuna", *arguments, "-b", cluster.bootstrap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_end(ask: Command, topic: str, *arguments: str) -> str:
    out: str = ask("consume", topic, "--until", "end", *arguments).out
    return out


@pytest.mark.slow
def test_lines_become_records_and_come_back(ask: Command, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic()
    ran = ask("produce", topic, stdin=b"first\n\nthird without an end")
    assert ran.rows == [HEADINGS, [topic, "0", "3", "0", "2"]]
    assert until_end(ask, topic) == "first\n\nthird without an end\n"


@pytest.mark.slow
def test_json_lines_that_consume_prints_are_produced_again(
    ask: Command, refuse: Refusal, lacuna_topic: NewTopic
) -> None:
    topic, copy, small = lacuna_topic(partitions=3), lacuna_topic(partitions=3), lacuna_topic()
    lines = (
        b'{"key": "k", "value": {"a": [1]}, "headers": {"h": "x", "n": null}, "partition": 2, "timestamp": 9}',
        b"",
        b'{"key": {"base64": "/w=="}, "value": null, "partition": 0}',
        b'{"value": "text", "headers": [{"name": "h", "value": "y"}], "partition": 1}',
    )
    ask("produce", topic, "--format", "json", "--header", "all=1", stdin=b"\n".join(lines))
    printed = until_end(ask, topic, "--json")
    found = {each["partition"]: each for each in map(json.loads, printed.splitlines())}
    assert (found[2]["key"], found[2]["value"]) == ("k", '{"a":[1]}')
    assert found[2]["timestamp"] == 9
    assert [(each["name"], each["value"]) for each in found[2]["headers"]] == [
        ("all", "1"),
        ("h", "x"),
        ("n", None),
    ]
    assert (found[0]["key"], found[0]["value"]) == ({"base64": "/w=="}, None)
    ask("produce", copy, "--format", "json", stdin=printed.encode())
    again = until_end(ask, copy, "--json").replace(copy, topic)
    assert sorted(again.splitlines()) == sorted(printed.splitlines())
    told = refuse("produce", small, "--format", "json", stdin=printed.encode())
    assert "does not have this partition" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"x", "line 1: Expecting value"),
        (b"[]", "line 1: it is not a JSON object"),
        (b'{"kee": 1}', "line 1: kee is not a field"),
        (b'{"partition": -1}', "line 1: partition -1 is not a number of 0 or more"),
        (b'{"headers": [1]}', "line 1: headers must be an object"),
        (b'{"value": {"base64": "?"}}', "line 1: "),
    ],
)
def test_lines_that_are_not_records(line: bytes, told: str) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        list(json_records(iter([line])))


@pytest.mark.slow
def test_files_are_produced(
    ask: Command, refuse: Refusal, lacuna_topic: NewTopic, tmp_path: Path
) -> None:
    topic = lacuna_topic()
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}1\n{name}2")
    files = ("--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    ask("produce", topic, *files)
    ask("produce", topic, *files, "--whole")
    assert until_end(ask, topic, "-f", "%s;") == "a1;a2;b1;b2;a1\na2;b1\nb2;"
    assert "cannot be read: No such file" in refuse("produce", topic, "--file", "none")
    assert "--whole needs files" in refuse("produce", topic, "--whole")
    assert "have their own keys" in refuse("produce", topic, "-f", "json", "-K", ":")
    assert "'xml' is not a format" in refuse("produce", topic, "-f", "xml", code=2)


@pytest.mark.slow
def test_several_topics_and_what_expressions_find(
    ask: Command, refuse: Refusal, lacuna_topic: NewTopic
) -> None:
    topics = [lacuna_topic(), lacuna_topic()]
    for topic in topics:
        ask("produce", topic, "-K", ":", stdin=b"k1:apple\nk2:pear\nplain\n")
    found = until_end(ask, topics[0], topics[1], "-f", r"%t %k\n", "--key", "k[1]").splitlines()
    assert sorted(found) == sorted(f"{topic} k1" for topic in topics)
    patterns = [f"{topic[:-1]}?" for topic in topics]
    like = ask("consume", *patterns, "--until", "end", "--value", "^p", "--count", "4").out
    assert sorted(like.split()) == ["pear", "pear", "plain", "plain"]
    assert "no topic matches none-*" in refuse("consume", "none-*")
    assert "--key (: this is not a regular expression" in refuse("consume", topics[0], "--key", "(")
    assert "did you mean" in refuse("consume", f"{topics[0]}x")


@pytest.mark.slow
def test_a_member_of_a_group_commits_what_it_printed(
    ask: Command, refuse: Refusal, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    group = ("--group", f"{topic}-readers")
    ask("produce", topic, stdin=b"a\nb\nc\nd\n")
    assert ask("consume", topic, *group, "--count", "3").out == "a\nb\nc\n"
    assert ask("consume", topic, *group, "--count", "1").out == "d\n"
    (row,) = json.loads(ask("groups", "lag", group[1], "--json").out)
    assert (row["committed"], row["lag"]) == (4, 0)
    for option in (("--until", "end"), ("--partition", "0"), ("--at", "-1s")):
        assert "use only one of them" in refuse("consume", topic, *group, *option)
    assert "a group begins at its committed offsets" in refuse(
        "consume", topic, *group, "--from", "3"
    )


@pytest.mark.slow
def test_new_records_are_followed_with_rates(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    ask("produce", topic, stdin=b"old\n")
    with running(lacuna_cluster, "consume", topic, "--follow", "--count", "1") as follower:
        assert follower.stderr is not None
        assert b"records/s" in follower.stderr.readline()
        ask("produce", topic, stdin=b"new\n")
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"new\n"
        assert follower.wait(SECONDS) == 0


@pytest.mark.slow
def test_the_table_as_json(ask: Command, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic(partitions=2)
    ran = ask("produce", topic, "--partition", "1", "--json", stdin=b"a\nb\n")
    assert json.loads(ran.out) == [
        {"topic": topic, "partition": 1, "records": 2, "first_offset": 0, "last_offset": 1}
    ]
    assert ask("produce", topic, "--output", "tsv").rows == [HEADINGS]


@pytest.mark.slow
def test_what_is_written_of_a_record_is_printed(ask: Command, lacuna_topic: NewTopic) -> None:
    """Keys, headers, tombstones, lines without a key, and kcat's placeholders and escapes are printed."""
    topic = lacuna_topic()
    options = ("-K", "::", "--null", "--header", "shop=x=y", "--header", "empty=")
    ask("produce", topic, *options, stdin=b"k::v::w\nk::\nplain\n")
    out = until_end(ask, topic, "-f", r"%t %p %o %k %K %s %S %h 100%%\x41\t\0\\\n")
    assert out == "".join(
        f"{topic} 0 {middle} shop=x=y,empty= 100%A\t\0\\\n"
        for middle in ("0 k 1 v::w 4", "1 k 1  -1", "2  -1 plain 5")
    )
    assert until_end(ask, topic, "-Z", "-f", r"%k %s %K\n") == "k v::w 1\nk NULL 1\nNULL plain -1\n"
    packed = until_end(ask, topic, "-f", "%R").encode(errors="surrogateescape")
    assert packed == b"\0\0\0\4" + b"\xff" * 4 + b"\0\0\0\5"
    timestamps = until_end(ask, topic, "-f", r"%T\n").split()
    assert all(abs(int(each) - time.time() * 1000) < 600_000 for each in timestamps)


def test_json_lines(ask: Command, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic()
    lines = b'k\t"quoted" \xc3\xa9\nk\t\n\xff\t\xfe\x00\n'
    ask("produce", topic, "-K", r"\t", "--null", "-H", "a=1", "-H", "a=2", stdin=lines)
    found = [json.loads(line) for line in until_end(ask, topic, "--json").splitlines()]
    headers = [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    assert all(each.pop("timestamp") > 0 for each in found)
    assert {each.pop("timestamp_type") for each in found} == {"create"}
    assert found == [
        {"topic": topic, "partition": 0, "offset": offset, "key": key, "value": value,
         "headers": headers}
        for offset, (key, value) in enumerate(
            [("k", '"quoted" é'), ("k", None), ({"base64": "/w=="}, {"base64": "/gA="})]
        )
    ]  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_bytes_are_what_they_were(ask: Command, lacuna_topic: NewTopic, codec: str) -> None:
    topic = lacuna_topic()
    value = bytes(each for each in range(256) if each != 10) * 10
    ask("produce", topic, "--compression", codec, stdin=value + b"\n")
    assert until_end(ask, topic).encode(errors="surrogateescape") == value + b"\n"


@pytest.mark.slow
def test_transactions_are_committed_and_aborted(ask: Command, lacuna_topic: NewTopic) -> None:
    """There are aborted records at the start, in the middle and at the end. Each read reaches the end."""
    topic = lacuna_topic()
    once = ("produce", topic, "--transactional-id", topic)
    aborted = ask(*once, "--abort", stdin=b"no\nno\n")
    assert aborted.rows[0] == [f"aborted 1 transaction of {topic}"]
    assert until_end(ask, topic) == ""
    committed = ask(*once, "--records-per-transaction", "2", stdin=b"a\nb\nc\n")
    assert committed.rows[0] == [f"committed 2 transactions of {topic}"]
    ask(*once, "--abort", "--records-per-transaction", "1", stdin=b"no\nno\nno\n")
    assert until_end(ask, topic).split() == ["a", "b", "c"]
    assert until_end(ask, topic, "--from", "end-1") == ""
    seen = until_end(ask, topic, "--isolation", "uncommitted").split()
    assert [each for each in seen if each != "no"] == ["a", "b", "c"]


def test_an_open_transaction_is_the_end(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["before"])
    producer = clients.opened(lacuna_cluster.bootstrap, topic, topic, ["open"])
    assert until_end(ask, topic).split() == ["before"]
    assert until_end(ask, topic, "--isolation", "uncommitted").split() == ["before", "open"]
    assert until_end(ask, topic, "--from", "end-1").split() == ["before"]
    producer.abort_transaction(SECONDS)


@pytest.mark.slow
def test_what_could_be_seen_at_a_past_time(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """A transaction that was open at that time is invisible, as are all later records, whatever its outcome."""
    topic = lacuna_topic(partitions=2)

    def travel(at: str) -> list[tuple[int, ...]]:
        """Return the partition, its log start and its end offsets then and now, and the numbers of remaining and new
        records.
        """
        rows = json.loads(ask("time-travel", topic, "--at", at, "--json").out)
        assert len({row.pop("as_of") for row in rows}) == 1
        names = ("partition", "log_start", "end_then", "end_now", "records_left", "records_since")
        assert all(tuple(row) == names for row in rows)
        return [tuple(row.values()) for row in rows]

    plain = clients.plain(lacuna_cluster.bootstrap)
    clients.send(plain, topic, ["before"])
    open_ones = [
        clients.transactional(lacuna_cluster.bootstrap, f"{topic}-{end}")
        for end in ("commits", "aborts")
    ]
    for producer in open_ones:
        producer.begin_transaction()
        clients.send(producer, topic, ["open"], partition=0)
        clients.send(producer, topic, ["open"], partition=1)
    clients.send(plain, topic, ["behind"])
    then = str(next_second())
    commits, aborts = open_ones
    commits.commit_transaction(SECONDS)
    aborts.abort_transaction(SECONDS)
    clients.send(plain, topic, ["after"])
    now = str(next_second())

    assert ask("consume", topic, "--at", then).out.split() == ["before"]
    seen = ask("consume", topic, "--at", now).out.split()
    assert sorted(seen) == ["after", "before", "behind", "open", "open"]
    assert ask("consume", topic, "--at", then, "--from", "1").out == ""
    assert travel(then) == [(0, 0, 1, 5, 1, 3), (1, 0, 0, 2, 0, 1)]
    assert travel(now) == [(0, 0, 5, 5, 4, 0), (1, 0, 2, 2, 1, 0)]
    ran = ask("consume", topic, "--at", datetime.fromtimestamp(int(then) / 1000, UTC).isoformat())
    assert ran.out.split() == ["before"]


def next_second() -> int:
    """Wait until the next second has begun, including on the cluster's clock. Return the time at which it began."""
    second = int(time.time()) + 1
    while time.time() < second + 0.05:
        time.sleep(0.01)
    return second * 1000


@pytest.mark.slow
def test_any_client_can_ask_about_a_past_time(
    lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    bootstrap = lacuna_cluster.bootstrap
    clients.send(clients.plain(bootstrap), topic, ["a", "b"])
    then = next_second()
    clients.send(clients.plain(bootstrap), topic, ["c"])
    next_second()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, -then)], SECONDS)
    assert (found.offset, found.error) == (2, None)
    with pytest.raises(KafkaException, match="Offset out of range"):
        consumer.offsets_for_times([TopicPartition(topic, 0, -(10**12))], SECONDS)
    consumer.close()


def test_a_past_time_that_cannot_be_shown(refuse: Refusal, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic()
    for told in (
        refuse("consume", topic, "--at", "2020-01-01T00:00Z"),
        refuse("time-travel", topic, "--at", "2020-01-01T00:00Z"),
        refuse("time-travel", topic, "--at", "-40d"),
    ):
        assert told.startswith(f"the visible part of {topic} is known only from 20")
    assert "in the future" in refuse("consume", topic, "--at", "2999-01-01")
    assert "-15m for fifteen" in refuse("consume", topic, "--at", "yesterday")
    assert "both define the end" in refuse("consume", topic, "--at", "-1s", "--until", "end")
    uncommitted = ("--isolation", "uncommitted")
    assert "read_committed" in refuse("consume", topic, "--at", "-1s", *uncommitted)
    assert "there is no topic" in refuse("time-travel", "none", "--at", "-1s")


@pytest.mark.slow
def test_a_log_that_ends_in_a_hole(lacuna: Command) -> None:
    """After a merge has dropped aborted records, no isolation level gets a record or control record there."""
    merges = MergeSettings(min_extents=1, min_age_ms=0)
    parts = AgentParts(housekeeping=HousekeepingSettings(merge_interval_ms=10, merge=merges))
    with Cluster(parts=parts) as cluster:
        cluster.create_topic("t")
        address = {"LACUNA_BOOTSTRAP": cluster.bootstrap}
        lacuna("produce", "t", stdin=b"a\nb\n", **address)
        lacuna("produce", "t", "--transactional-id", "t", "--abort", stdin=b"no\nno\n", **address)
        deadline = time.monotonic() + SECONDS
        while any(each.row.fate is Fate.DROPPED for each in cluster.explain("t", 0).lines):
            assert time.monotonic() < deadline
        for isolation in ("committed", "uncommitted"):
            ran = lacuna("consume", "t", "--until", "end", "--isolation", isolation, **address)
            assert (ran.out, ran.err, ran.code) == ("a\nb\n", "", 0)


@pytest.mark.slow
def test_from_and_until(ask: Command, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic(partitions=2)
    ask("produce", topic, "-p", "0", stdin=b"0\n1\n2\n3\n4\n")
    ask("produce", topic, "-p", "1", stdin=b"x\n")

    def read(*arguments: str) -> list[str]:
        return sorted(ask("consume", topic, *arguments).out.split())

    assert read("--from", "3", "--until", "end") == ["3", "4"]
    assert read("--from", "1", "--until", "3", "-p", "0") == ["1", "2"]
    assert read("--from", "end-2", "--until", "end") == ["3", "4", "x"]
    assert read("--from", "end", "--until", "end") == []
    assert read("--from", "3", "--until", "3") == []
    assert read("-p", "1", "-p", "0", "-c", "6") == ["0", "1", "2", "3", "4", "x"]
    assert read("-p", "0", "--count", "2") == ["0", "1"]


def test_times(ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic()
    now_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": lacuna_cluster.bootstrap})
    for minutes in (60, 30, 10):
        producer.produce(topic, str(minutes), timestamp=now_ms - minutes * 60_000)
    assert producer.flush(SECONDS) == 0
    assert until_end(ask, topic, "--from", "45m").split() == ["30", "10"]
    assert ask("consume", topic, "--until", "20m").out.split() == ["60", "30"]
    assert ask("consume", topic, "--from", "1d", "--until", "45m").out.split() == ["60"]
    assert until_end(ask, topic, "--from", "1m") == ""
    instant = datetime.fromtimestamp(now_ms / 1000 - 2700, UTC)
    for text in (instant.isoformat(), instant.astimezone().replace(tzinfo=None).isoformat()):
        assert until_end(ask, topic, "--from", text).split() == ["30", "10"]


def test_an_empty_topic(ask: Command, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic(partitions=3)
    assert until_end(ask, topic) == ""
    assert until_end(ask, topic, "--from", "end-5", "--isolation", "uncommitted") == ""


def test_what_is_wrong_is_said(refuse: Refusal, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic(partitions=2)
    gone = "topic nowhere: the topic does not exist; `lacuna topics list` lists the topics"
    assert refuse("consume", "nowhere") == gone
    for command in ("produce", "consume"):
        said = refuse(command, topic, "--partition", "2")
        assert said == f"--partition 2: {topic} has 2 partitions; choose 0 to 1"
    assert "ends earlier, at 0" in refuse("consume", topic, "--from", "5")
    assert "earliest, end, end-100" in refuse("consume", topic, "--from", "yesterday")
    assert "in the future" in refuse("consume", topic, "--until", "2199-01-01T00:00:00")
    assert "%q is not a placeholder" in refuse("consume", topic, "--format", "%q")
    assert "both define the output" in refuse("consume", topic, "--json", "--format", "%k")
    assert "choose committed or uncommitted" in refuse(
        "consume", topic, "--isolation", "none", code=2
    )
    assert "use NAME=VALUE" in refuse("produce", topic, "--header", "name")
    for option, name in (("--header", "\udcff=1"), ("--transactional-id", "\udcff")):
        assert "it cannot be a name in Kafka" in refuse("produce", topic, option, name)
    assert "add --transactional-id" in refuse("produce", topic, "--abort")
    assert "choose one of none, gzip" in refuse("produce", topic, "--compression", "rar", code=2)


def test_a_cluster_that_is_not_there(refused: Refusal) -> None:
    for command in ("produce", "consume"):
        said = refused(command, "t", "--bootstrap", "127.0.0.1:1")
        assert "check the address, or start one with `lacuna up`" in said


@pytest.mark.slow
def test_a_record_that_is_refused(ask: Command, refuse: Refusal, lacuna_topic: NewTopic) -> None:
    small = lacuna_topic(max_message_bytes=1000)
    said = refuse("produce", small, stdin=b"a" * 2000 + b"\n")
    assert said.startswith("line 1: it is larger than the topic's max.message.bytes, ")
    assert said.endswith("(0 records arrived)")
    many = b"".join(b"%099d\n" % number for number in range(100))
    assert ask("produce", small, stdin=many).rows[1] == [small, "0", "100", "0", "99"]
    compacted = lacuna_topic(cleanup_policy="compact")
    said = refuse("produce", compacted, "-K", ":", "--transactional-id", small, stdin=b"k:v\nv\n")
    assert "each record needs a key: add --key-separator" in said
    assert said.endswith("(its transaction was aborted)")
    assert until_end(ask, compacted) == ""


def test_a_producer_with_the_same_id_takes_over(
    lacuna_cluster: Cluster, lacuna_topic: NewTopic, ask: Command
) -> None:
    topic = lacuna_topic()
    with running(lacuna_cluster, "produce", topic, "--transactional-id", topic) as process:
        assert process.stdin is not None
        process.stdin.write(b"fenced\n")
        process.stdin.flush()
        ask("consume", topic, "--isolation", "uncommitted", "-c", "1")
        ask("produce", topic, "--transactional-id", topic, stdin=b"newer\n")
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert said.count(b"\n") == 1
    assert b"a newer producer uses this --transactional-id" in said
    assert until_end(ask, topic) == "newer\n"


def test_a_topic_is_created_when_first_written(ask: Command) -> None:
    assert ask("produce", "new", stdin=b"a\n").rows[1] == ["new", "0", "1", "0", "0"]


WITHOUT_CLIENT = (
    "import sys; sys.modules['confluent_kafka'] = None; from lacuna.cli import main; main()"
)


@pytest.mark.slow
def test_without_a_kafka_client() -> None:
    for command in ("produce", "consume"):
        ran = subprocess.run(
            [sys.executable, "-c", WITHOUT_CLIENT, command, "t"], capture_output=True, text=True
        )
        expected = f"lacuna: {command} needs a Kafka client: pip install 'lacuna-log[demo]'\n"
        assert (ran.stderr, ran.returncode) == (expected, 1)


@pytest.mark.slow
def test_other_commands_need_no_kafka_client(lacuna_cluster: Cluster) -> None:
    """Nor does the suggestion for a mistyped variable, which loads all commands."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_CLIENT, "groups", "list", "-b", lacuna_cluster.bootstrap],
        capture_output=True,
        text=True,
        env=os.environ | {"LACUNA_BOOTSTRP": "x"},
    )
    assert ran.returncode == 0
    assert "did you mean LACUNA_BOOTSTRAP?" in ran.stderr


@pytest.mark.slow
def test_reading_outlives_the_cluster(lacuna_private_cluster: Cluster, lacuna: Command) -> None:
    cluster = lacuna_private_cluster
    bootstrap = cluster.bootstrap
    address = {"LACUNA_BOOTSTRAP": bootstrap}
    lacuna("produce", "t", stdin=b"a\n", **address)
    with running(cluster, "consume", "t") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a\n"
        cluster.kill()
        said = process.stderr.readline().decode()
        assert said == f"lacuna: no agent answers at {bootstrap}; waiting for an agent\n"
        cluster.start()
        lacuna("produce", "t", stdin=b"b\n", **address)
        assert process.stdout.readline() == b"b\n"


def test_ctrl_c_aborts_the_open_transaction(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    options = ("--transactional-id", topic, "--records-per-transaction", "2")
    with running(lacuna_cluster, "produce", topic, *options) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()
        read = ("--isolation", "uncommitted", "-c", "3")
        assert ask("consume", topic, *read).out.split() == ["a", "b", "c"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert said.decode() == (
        "lacuna: stopped: aborted the open transaction of 1 record; 1 earlier transaction ended before that\n"
    )
    assert until_end(ask, topic).split() == ["a", "b"]


@pytest.mark.slow
def test_ctrl_c_ends_reading(ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic) -> None:
    """Standard error remains empty if the command would read forever. Otherwise, the interruption is reported."""
    topic = lacuna_topic()
    ask("produce", topic, stdin=b"a\n")
    for options, code, expected in (((), 130, b""), (("-c", "2"), 130, b"lacuna: stopped\n")):
        with running(lacuna_cluster, "consume", topic, *options) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"a\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=SECONDS)
        assert (process.returncode, said.lstrip()) == (code, expected)


@pytest.mark.slow
@pytest.mark.parametrize("more", [b"", b"b\n"])
def test_it_ends_when_its_reader_goes_away(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic, more: bytes
) -> None:
    topic = lacuna_topic()
    ask("produce", topic, stdin=b"a\n")
    with running(lacuna_cluster, "consume", topic) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a\n"
        process.stdout.close()
        if more:
            ask("produce", topic, stdin=more)
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_records_are_printed_as_they_come(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    with running(lacuna_cluster, "consume", topic) as process:
        assert process.stdout is not None
        for line in (b"a\n", b"b\n"):
            ask("produce", topic, stdin=line)
            assert process.stdout.readline() == line


@pytest.mark.slow
def test_many_records(ask: Command, lacuna_topic: NewTopic) -> None:
    """The records fill more than a batch, in partitions that end at different times. Each partition is in order."""
    topic = lacuna_topic(partitions=3)
    lines = [f"{number}:{'x' * 20}" for number in range(30_000)]
    ran = ask("produce", topic, "-K", ":", stdin="\n".join(lines).encode())
    assert sum(int(row[2]) for row in ran.rows[1:]) == len(lines)
    found = [line.split() for line in until_end(ask, topic, "-f", r"%p %o %k\n").splitlines()]
    assert sorted(int(key) for *_, key in found) == list(range(len(lines)))
    for partition in range(3):
        offsets = [int(offset) for number, offset, _ in found if number == str(partition)]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("0", Point(Kind.OFFSET, 0)),
        ("17", Point(Kind.OFFSET, 17)),
        ("end", Point(Kind.END)),
        ("end-100", Point(Kind.END, 100)),
        ("10m", Point(Kind.TIME, NOW_MS - 600_000)),
        ("1.5s", Point(Kind.TIME, NOW_MS - 1500)),
        ("30000d", Point(Kind.TIME, 0)),
        ("1970-01-01T00:00:01.500Z", Point(Kind.TIME, 1500)),
        ("2026-11-26T01:00:00+01:00", Point(Kind.TIME, 1_795_651_200_000)),
    ],
)
def test_positions(text: str, point: Point) -> None:
    assert parse_from(text, NOW_MS) == parse_until(text, NOW_MS) == point


def test_words_that_only_one_end_has() -> None:
    assert parse_from("earliest", NOW_MS) == Point(Kind.EARLIEST)
    assert parse_until("never", NOW_MS) == Point(Kind.NEVER)
    for parse, text in ((parse_from, "never"), (parse_until, "earliest")):
        with pytest.raises(UserError, match=r"use |choose "):
            parse(text, NOW_MS)


@pytest.mark.slow
@given(st.text() | st.from_regex(r"(end)?-?[0-9.]{0,25}[dhmsTZ:]{0,3}", fullmatch=True))
def test_any_position_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_from(text, NOW_MS)
    except UserError:
        return
    assert 0 <= found.value < 1 << 64
    assert found.kind is not Kind.TIME or found.value <= NOW_MS


def message(value: bytes | None, key: bytes | None = None) -> Message:
    return Message(topic="t", partition=1, offset=2, key=key, value=value, timestamp=(1, 3))


@given(st.binary())
def test_any_bytes_can_be_written_in_a_format(literal: bytes) -> None:
    text = "".join(f"\\x{each:02x}" for each in literal)
    assert unescape(text, "--key-separator") == literal
    assert parse_format(text)([message(b"")] * 2) == literal * 2
    assert parse_format(text + "%s")([message(b"%d")]) == literal + b"%d"


@given(st.text(st.sampled_from("%\\tpoksKSThxn041q é\n")))
def test_any_format_is_parsed_or_refused(text: str) -> None:
    try:
        render = parse_format(text)
    except UserError:
        return
    assert render([message(b"v"), message(None)]) == render([message(b"v")]) + render(
        [message(None)]
    )


@given(st.none() | st.binary() | st.text().map(str.encode), st.none() | st.binary())
def test_json_has_every_byte(value: bytes | None, key: bytes | None) -> None:
    found = json.loads(render_json([message(value, key)]))
    assert [found[name] for name in ("topic", "partition", "offset", "timestamp")] == ["t", 1, 2, 3]
    for given_, shown in ((value, found["value"]), (key, found["key"])):
        if isinstance(shown, dict):
            assert b64decode(shown["base64"]) == given_
        else:
            assert (None if shown is None else shown.encode()) == given_


@pytest.mark.slow
def test_a_file_and_sql_have_the_committed_records(
    ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic, tmp_path: Path
) -> None:
    topic = lacuna_topic()
    producer = clients.transactional(lacuna_cluster.bootstrap, topic)
    for value in ("1", "aborted", "20", "300"):
        clients.transact(producer, topic, [value], commits=value != "aborted")
    file = tmp_path / "some.parquet"
    ran = ask("consume", topic, "-o", "parquet", "--from", "end-2", "-c", "1", str(file))
    assert ran.out == f"1 record in {file}\n"
    assert pq.read_table(file).select(["offset", "value"]).to_pylist() == [
        {"offset": 2, "value": b"20"}
    ]
    total = f'SELECT sum(decode(value)::int) AS total FROM "{topic}" WHERE "offset" < 3'
    assert json.loads(ask("sql", total, "--json").out) == [{"total": 21}]
