"""Zombies, timeouts and lost transactions, as seen by librdkafka and aiokafka (S4, S5, S8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from lacuna.testing import Cluster as LacunaCluster

from .conftest import Given, Topic, Unique
from .librd import UNCOMMITTED, consumer, producer, read, send, transaction, watermarks

FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}


def _fails(action: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        action()
    error: KafkaError = caught.value.args[0]
    return error


def _await_stable(bootstrap: str, name: str) -> None:
    """Wait until the open transactions in partition 0 have ended, as a read_committed consumer does at the end."""
    _, end = watermarks(bootstrap, name, UNCOMMITTED)
    who = consumer(bootstrap)
    try:
        who.assign([TopicPartition(name, 0, 0)])
        at = 0
        while at < end:
            message = who.poll(60)
            assert message is not None, f"it waits at {at} of {end}"
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            at = (message.offset() or 0) + (error is None)
    finally:
        who.close()


def _commit(who: Producer) -> Callable[[], object]:
    return lambda: who.commit_transaction(60)


def test_a_zombie_cannot_commit(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S8: the second producer of a transactional id fences the first and aborts its work."""
    name, tid = topic(), unique("t")
    zombie = producer(bootstrap, tid)
    zombie.begin_transaction()
    send(zombie, name, [b"zombie"])
    heir = producer(bootstrap, tid)
    error = _fails(_commit(zombie))
    assert error.code() in FENCED
    assert error.fatal()
    transaction(heir, name, [b"heir"], commit=True)
    assert read(bootstrap, name).values == [b"heir"]


def test_a_zombie_cannot_produce(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S4, S8: no log accepts a record of the old epoch."""
    name, tid = topic(), unique("t")
    zombie = producer(bootstrap, tid)
    transaction(zombie, name, [b"before"], commit=True)
    producer(bootstrap, tid)
    zombie.begin_transaction()
    error = _fails(lambda: send(zombie, name, [b"late"]))
    assert error.code() in FENCED | {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
    assert _fails(_commit(zombie)).code() in FENCED
    assert read(bootstrap, name, UNCOMMITTED).values == [b"before"]


def test_the_heir_aborts_what_was_open(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S3, S8: initializing again releases readers immediately."""
    name, tid = topic(), unique("t")
    lost = producer(bootstrap, tid)
    lost.begin_transaction()
    send(lost, name, [b"lost"])
    plain = send(producer(bootstrap), name, [b"plain"])
    assert read(bootstrap, name).values == []
    producer(bootstrap, tid)
    _await_stable(bootstrap, name)
    assert read(bootstrap, name).records == [(plain[0], b"plain")]


def test_timeout_aborts(
    cluster: Given | LacunaCluster, bootstrap: str, topic: Topic, unique: Unique
) -> None:
    """S5, S8: after transaction.timeout.ms, the coordinator aborts, and the late commit fails."""
    name = topic()
    timeout_ms = 5000 if isinstance(cluster, Given) else 60_000
    slow = producer(bootstrap, unique("t"), transaction_timeout_ms=timeout_ms)
    slow.begin_transaction()
    send(slow, name, [b"slow"])
    if not isinstance(cluster, Given):
        cluster.advance(timeout_ms)
    _await_stable(bootstrap, name)
    error = _fails(_commit(slow))
    assert error.fatal() or error.txn_requires_abort()
    assert read(bootstrap, name).values == []
    fresh = producer(bootstrap, unique("t"))
    transaction(fresh, name, [b"fresh"], commit=True)
    assert read(bootstrap, name).values == [b"fresh"]


def test_transactional_ids_do_not_disturb_each_other(
    bootstrap: str, topic: Topic, unique: Unique
) -> None:
    """S8: another id's init, abort or timeout changes nothing here."""
    name = topic()
    one, two = producer(bootstrap, unique("t")), producer(bootstrap, unique("t"))
    one.begin_transaction()
    send(one, name, [b"one"])
    transaction(two, name, [b"two"], commit=False)
    producer(bootstrap, unique("t"))
    one.commit_transaction(60)
    assert read(bootstrap, name).values == [b"one"]


def test_empty_transactions(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S5: a transaction without records commits and aborts without a trace."""
    name, who = topic(), producer(bootstrap, unique("t"))
    for commit in (True, False, True):
        transaction(who, name, [], commit=commit)
    assert transaction(who, name, [b"x"], commit=True) == [0]


async def test_aiokafka_zombie(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S8: aiokafka's fenced producer cannot commit either."""
    name, tid = topic(), unique("t")
    zombie = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=tid)
    heir = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=tid)
    await zombie.start()
    try:
        await zombie.begin_transaction()
        await zombie.send_and_wait(name, b"zombie", partition=0)
        await heir.start()
        with pytest.raises(AioKafkaError):
            await zombie.commit_transaction()
        async with heir.transaction():
            await heir.send_and_wait(name, b"heir", partition=0)
    finally:
        await heir.stop()
        await zombie.stop()
    assert read(bootstrap, name).values == [b"heir"]
