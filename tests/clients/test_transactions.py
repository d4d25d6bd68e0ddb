"""Tests isolation, atomicity and order of transactions with librdkafka, which speaks TV1 (S1, S3, S13, S14)."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from .conftest import Topic, Unique
from .librd import COMMITTED, UNCOMMITTED, consumer, producer, read, send, transaction, watermarks


def test_seed_001_interleaved_producers(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S13, S14 (001_): an aborted, a plain and a committed transactional producer write side by side."""
    name = topic()
    aborted, plain = producer(bootstrap, unique("t")), producer(bootstrap)
    committed = producer(bootstrap, unique("t"))
    aborted.begin_transaction()
    committed.begin_transaction()
    placed = {}
    for number in range(3):
        placed[send(aborted, name, [b"aborted-%d" % number])[0]] = "aborted"
        placed[send(plain, name, [b"plain-%d" % number])[0]] = "plain"
        placed[send(committed, name, [b"committed-%d" % number])[0]] = "committed"
    everything = read(bootstrap, name, UNCOMMITTED)
    aborted.abort_transaction(60)
    committed.commit_transaction(60)
    stable = read(bootstrap, name, COMMITTED)
    assert everything.offsets == list(range(9))
    kept = [offset for offset, kind in sorted(placed.items()) if kind != "aborted"]
    assert stable.offsets == kept == [1, 2, 4, 5, 7, 8]
    assert stable.values == [v for v in everything.values if not v.startswith(b"aborted")]
    end = 11 if is_kafka else 9
    assert watermarks(bootstrap, name, UNCOMMITTED) == (0, end)
    assert watermarks(bootstrap, name, COMMITTED) == (0, end)
    assert (everything.errors, stable.errors) == ([], [])


def test_no_offset_is_reserved_for_control_records(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S1: offsets of consecutive transactions are contiguous. Kafka leaves a gap of one after each."""
    name, who = topic(), producer(bootstrap, unique("t"))
    offsets = [
        offset
        for commit in (True, False, True, False, True)
        for offset in transaction(who, name, [b"a", b"b"], commit=commit)
    ]
    step = 3 if is_kafka else 2
    assert offsets == [base + i for base in range(0, 5 * step, step) for i in (0, 1)]
    assert watermarks(bootstrap, name)[1] == 5 * step


def test_nothing_beyond_the_last_stable_offset(
    bootstrap: str, topic: Topic, unique: Unique
) -> None:
    """S3, S13 (001_): an open transaction holds read_committed back at its first offset."""
    name, plain = topic(), producer(bootstrap)
    first, second = producer(bootstrap, unique("t")), producer(bootstrap, unique("t"))
    send(plain, name, [b"0", b"1"])
    first.begin_transaction()
    send(first, name, [b"2"])
    second.begin_transaction()
    send(second, name, [b"3"])
    send(plain, name, [b"4"])
    assert watermarks(bootstrap, name, COMMITTED) == (0, 2)
    assert watermarks(bootstrap, name, UNCOMMITTED) == (0, 5)
    assert read(bootstrap, name).values == [b"0", b"1"]
    second.commit_transaction(60)
    assert read(bootstrap, name).values == [b"0", b"1"]
    assert watermarks(bootstrap, name, COMMITTED) == (0, 2)
    first.abort_transaction(60)
    stable = read(bootstrap, name)
    assert stable.records == [(0, b"0"), (1, b"1"), (3, b"3"), (4, b"4")]


def test_a_waiting_consumer_wakes_at_the_commit(
    bootstrap: str, topic: Topic, unique: Unique
) -> None:
    """S13: a fetch that waits at the LSO is answered as soon as the LSO moves."""
    name, who = topic(), producer(bootstrap, unique("t"))
    waiting = consumer(bootstrap, COMMITTED, fetch_wait_max_ms=120_000, socket_timeout_ms=300_000)
    waiting.assign([TopicPartition(name, 0, 0)])
    send(producer(bootstrap), name, [b"before"])
    before = waiting.poll(60)
    assert before is not None
    assert before.value() == b"before"
    who.begin_transaction()
    send(who, name, [b"x"])
    assert waiting.poll(0.3) is None
    who.commit_transaction(60)
    message = waiting.poll(60)
    assert message is not None
    assert message.value() == b"x"
    waiting.close()


def test_atomic_over_topics_and_partitions(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S1: all partitions of a transaction have one outcome. S14: a merge may remove aborted records."""
    one, two = topic(partitions=3), topic(partitions=2)
    places = [(one, 0), (one, 1), (one, 2), (two, 0), (two, 1)]
    who = producer(bootstrap, unique("t"))
    for commit in (False, True):
        who.begin_transaction()
        for name, partition in places:
            send(who, name, [b"commit" if commit else b"abort"] * 3, partition)
        for name, partition in places:
            assert read(bootstrap, name, partition=partition).values == []
        if commit:
            who.commit_transaction(60)
        else:
            who.abort_transaction(60)
    for name, partition in places:
        assert read(bootstrap, name, partition=partition).values == [b"commit"] * 3
        everything = read(bootstrap, name, UNCOMMITTED, partition=partition)
        whole = [b"abort"] * 3 + [b"commit"] * 3
        assert everything.values in ([whole] if is_kafka else [whole, whole[3:]])


def test_order_and_offsets_do_not_depend_on_isolation(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S14: read_committed returns a subsequence with the same offsets, for each codec."""
    name = topic()
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        who = producer(bootstrap, unique("t"), compression_type=codec, linger_ms=5)
        for commit in (True, False, True):
            values = [b"%d-%s-%d" % (number, b"cx"[commit : commit + 1], i) for i in range(20)]
            transaction(who, name, values, commit=commit)
    everything, stable = read(bootstrap, name, UNCOMMITTED), read(bootstrap, name, COMMITTED)
    assert stable.records == [row for row in everything.records if b"-x-" in row[1]]
    if is_kafka:  # S14: in Lacuna a merge may have dropped aborted records by now
        assert len(everything.records) == 300
    assert len(stable.records) == 200


def test_many_transactions_of_one_producer(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S3, S14: of 60 short transactions over two partitions, every third aborts."""
    name, who = topic(partitions=2), producer(bootstrap, unique("t"))
    expected: dict[int, list[bytes]] = {0: [], 1: []}
    for number in range(60):
        commit = number % 3 != 0
        who.begin_transaction()
        for partition in (0, 1):
            value = b"%d" % number
            who.produce(name, value, partition=partition)
            if commit:
                expected[partition].append(value)
        if commit:
            who.commit_transaction(60)
        else:
            who.flush(60)
            who.abort_transaction(60)
    for partition in (0, 1):
        assert read(bootstrap, name, partition=partition).values == expected[partition]
