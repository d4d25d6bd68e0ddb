"""Tests consumers of both isolation levels side by side, by searching the bytes that they receive (S14, S15)."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from .batch import headers_of
from .conftest import Topic, Unique
from .librd import UNCOMMITTED, producer, read, send, transaction
from .wire import Connection, Fields

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
MARK = re.compile(rb"<(plain|committed|aborted)-(\d+)>")
ROUNDS = 60


def fetch(
    connection: Connection, topic: str, offset: int, isolation: int, wait_ms: int, min_bytes: int
) -> Fields:
    """Fetch from one partition."""
    asked = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    answer = connection.call(
        "fetch",
        12,
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        isolation_level=isolation,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [asked]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    row: Fields = answer["responses"][0]["partitions"][0]
    assert row["error_code"] == 0
    return row


def marks(connection: Connection) -> list[bytes]:
    """Return the values found in the raw bytes of all answers so far."""
    return [found[0] for _, _, _, frame in connection.log or () for found in MARK.finditer(frame)]


class Tail:
    """A reader at the end of a partition, which runs until `is_over` and until it has read everything.

    The read_uncommitted readers wait for several batches, which then arrive together.
    """

    def __init__(
        self, bootstrap: str, topic: str, isolation: int, is_over: threading.Event
    ) -> None:
        self.connection = Connection(bootstrap, log=[])
        self.topic = topic
        self.isolation = isolation
        self.min_bytes = 1000 if isolation == READ_UNCOMMITTED else 1
        self.is_over = is_over

    def run(self) -> list[bytes]:
        offset = 0
        while True:
            was_over = self.is_over.is_set()
            row = fetch(self.connection, self.topic, offset, self.isolation, 50, self.min_bytes)
            served = headers_of(row["records"])
            if served:
                offset = served[-1].last_offset + 1
            elif was_over:
                self.connection.close()
                return marks(self.connection)


def write(bootstrap: str, topic: str, transactional_ids: list[str]) -> None:
    """Write plain, aborted and committed records in turn, with one transaction open over plain records at a time."""
    plain = producer(bootstrap)
    dropping, keeping = (producer(bootstrap, each) for each in transactional_ids)
    for number in range(ROUNDS):
        send(plain, topic, [b"<plain-%d>" % number])
        dropping.begin_transaction()
        send(dropping, topic, [b"<aborted-%d>" % number] * 3)
        send(plain, topic, [b"<plain-%d>" % number])
        if number % 2:
            transaction(keeping, topic, [b"<committed-%d>" % number], commit=True)
        dropping.abort_transaction(60)


def test_s14_aborted_payload_never_reaches_read_committed(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """No read_committed reader sees it, whether it tails beside read_uncommitted readers or starts later anywhere."""
    if is_kafka:
        pytest.skip("Kafka sends aborted records and has the client drop them")
    name, is_over = topic(), threading.Event()
    levels = [READ_COMMITTED, READ_UNCOMMITTED] * 2
    tails = [Tail(bootstrap, name, level, is_over) for level in levels]
    with ThreadPoolExecutor(len(tails)) as executor:
        reading = [executor.submit(tail.run) for tail in tails]
        try:
            write(bootstrap, name, [unique("dropping"), unique("keeping")])
        finally:
            is_over.set()
        got = {level: each.result(60) for level, each in zip(levels, reading, strict=True)}
    everything = read(bootstrap, name, UNCOMMITTED)
    kept = [value for value in everything.values if not value.startswith(b"<aborted")]
    assert len(kept) == 2 * ROUNDS + ROUNDS // 2
    assert [*dict.fromkeys(got[READ_UNCOMMITTED])] == [*dict.fromkeys(everything.values)]
    assert [*dict.fromkeys(got[READ_COMMITTED])] == [*dict.fromkeys(kept)]
    with Connection(bootstrap, log=[]) as late:  # backwards: nobody has cached what it asks for
        for offset in reversed(range(len(everything.values))):
            fetch(late, name, offset, READ_COMMITTED, 0, 1)
        sent = marks(late)
    assert set(sent) == set(kept)
    assert read(bootstrap, name).values == kept
