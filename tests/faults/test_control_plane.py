"""Tests that the control plane dies while producers are in transactions and groups have members (S2, S5, S8, S26)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.librd import consumer, eventually, producer, read, send

from .load import insist
from .processes import Deployment

OUTCOMES = {"committed": True, "aborted": False}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Deployment]:
    """A control plane and two agents, each in its own process."""
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(60)
        yield made


def restart(cluster: Deployment, kind: str) -> None:
    """Kill or stop the control plane, and start it on the same journal."""
    if kind == "killed":
        cluster.control.kill()
    else:
        cluster.control.stop()
    cluster.control.start()


@pytest.mark.parametrize("kind", ["killed", pytest.param("stopped", marks=pytest.mark.slow)])
def test_transactions_go_on(cluster: Deployment, kind: str) -> None:
    """S2, S5: open transactions stay open, with records before and after the restart, and end as their
    clients request.
    """
    open_now: dict[str, Producer] = {}
    for name in OUTCOMES:
        who = open_now[name] = producer(cluster.bootstrap, name)
        who.begin_transaction()
        send(who, "t", [f"{name} before".encode()])
    member = consumer(cluster.bootstrap, group_id="g")
    restart(cluster, kind)
    for name, is_committed in OUTCOMES.items():
        who = open_now[name]
        send(who, "t", [f"{name} behind".encode()])
        if is_committed:
            _send_offset(who, member)
            insist(lambda who=who: who.commit_transaction(60))  # type: ignore[misc]
        else:
            insist(lambda who=who: who.abort_transaction(60))  # type: ignore[misc]
    got = read(cluster.bootstrap, "t")
    assert got.values == [b"committed before", b"committed behind"]
    restart(cluster, kind)
    again = read(cluster.bootstrap, "t")
    assert (again.records, again.position) == (got.records, 4)
    eventually(lambda: _committed(member), 2)
    member.close()


def _committed(member: Consumer) -> int | None:
    """Return the committed offset, or None while the coordinator waits for the control plane. Other clients then retry
    by themselves.
    """
    try:
        return int(member.committed([TopicPartition("t", 0)], 60)[0].offset)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
            raise
        return None


def _send_offset(who: Producer, member: Consumer) -> None:
    metadata = member.consumer_group_metadata()
    offset = TopicPartition("t", 0, 2)
    insist(lambda: who.send_offsets_to_transaction([offset], metadata, 60))


def test_nothing_is_acknowledged_without_it(cluster: Deployment) -> None:
    """S2: during the outage, agents accept and lose nothing. Afterwards, everything is delivered in order."""
    told: list[int | None] = []
    who = producer(cluster.bootstrap, enable_idempotence=True)
    send(who, "t", [b"before"])
    cluster.control.kill()
    for number in range(20):
        who.produce(
            "t",
            b"while %d" % number,
            partition=0,
            on_delivery=lambda error, message: told.append(message.offset()),
        )
    who.flush(2)
    assert told == []
    cluster.control.start()
    assert who.flush(60) == 0
    assert told == list(range(1, 21))
    values = read(cluster.bootstrap, "t").values
    assert values == [b"before", *(b"while %d" % number for number in range(20))]


@pytest.mark.slow
def test_offsets_are_looked_for_until_it_is_back(cluster: Deployment) -> None:
    """S7: agents wait 10 s for it, then return an error after which librdkafka retries three times."""
    send(producer(cluster.bootstrap), "t", [b"0", b"1"])
    who = consumer(
        cluster.bootstrap, group_id="g", retry_backoff_ms=3000, retry_backoff_max_ms=20_000
    )
    cluster.control.kill()
    back = threading.Timer(11.0, cluster.control.start)
    back.start()
    try:
        assert who.get_watermark_offsets(TopicPartition("t", 0), 60) == (0, 2)
    finally:
        back.join()
        who.close()
