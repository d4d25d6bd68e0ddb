"""Probes of Fetch, its sessions, ListOffsets and OffsetForLeaderEpoch (S7, S13, S15, S21)."""

from __future__ import annotations

import time
import uuid
from typing import Any

from .batch import CODECS, TIMESTAMP, Rec, batch, headers_of
from .probing import Outcome, Target, error_of, fetched, probe
from .wire import ClosedError, Fields


def _shape(row: Fields, offset: int = 0) -> list[Any]:
    """A fetched partition: error, high watermark, last stable offset, log start, number of aborted entries, offsets.

    Only the served offsets from `offset` on are kept, because the server may divide records into batches freely, and
    begin the first batch before `offset`.
    """
    served = headers_of(row["records"] or b"")
    aborted = row["aborted_transactions"]
    span = [max(served[0].base_offset, offset), served[-1].last_offset] if served else []
    return [
        error_of(row),
        row["high_watermark"],
        row["last_stable_offset"],
        row["log_start_offset"],
        aborted if aborted is None else len(aborted),
        span,
        "null" if row["records"] is None else "bytes",
    ]


def _fill(t: Target, topic: str, batches: int = 3, per: int = 2, size: int = 1) -> None:
    for _ in range(batches):
        assert t.verdict(topic, batch([b"x" * size] * per)) == "NONE"


@probe("fetch")
def bounds(t: Target) -> Outcome:
    topic = t.topic()
    empty = _shape(t.fetch(topic, 0))
    _fill(t, topic)
    deleted = t.topic()
    _fill(t, deleted)
    rows = [{"name": deleted, "partitions": [{"partition_index": 0, "offset": 3}]}]
    t.call("delete_records", 2, topics=rows, timeout_ms=5000)
    return {
        "empty log at 0": empty,
        "empty log at 1": _shape(t.fetch(t.topic(), 1)),
        "at 0": _shape(t.fetch(topic, 0)),
        "inside a batch": _shape(t.fetch(topic, 3), 3),
        "at the end": _shape(t.fetch(topic, 6), 6),
        "beyond the end": _shape(t.fetch(topic, 7), 7),
        "far beyond": _shape(t.fetch(topic, 1 << 60)),
        "negative": _shape(t.fetch(topic, -1)),
        "below log start": _shape(t.fetch(deleted, 2), 2),
        "at log start inside a batch": _shape(t.fetch(deleted, 3), 3),
    }


@probe("fetch")
def addressing(t: Target) -> Outcome:
    topic = t.topic()
    _fill(t, topic, 1)

    def by_id(topic_id: uuid.UUID, version: int) -> list[Any]:
        topics = [{"topic_id": topic_id, "partitions": [fetched(0, most_bytes=1000)]}]
        answer = t.call("fetch", version, max_bytes=1 << 20, topics=topics)
        return [error_of(answer)] + [
            error_of(p) for x in answer["responses"] for p in x["partitions"]
        ]

    return {
        "unknown topic": _shape(t.fetch(t.name(), 0)),
        "unknown partition": _shape(t.fetch(topic, 0, index=7)),
        "unknown topic id, v13": by_id(uuid.uuid4(), 13),
        "zero topic id, v13": by_id(uuid.UUID(int=0), 13),
        "known topic id, v13": by_id(t.id_of(topic), 13),
        "known topic id, v17": by_id(t.id_of(topic), 17),
        "leader epoch ahead": _shape(t.fetch(topic, 0, leader_epoch=5)),
        "leader epoch 0": _shape(t.fetch(topic, 0, leader_epoch=0)),
        "served leader epoch": [
            b.partition_leader_epoch for b in headers_of(t.fetch(topic, 0)["records"])
        ],
    }


def _fetch_v4(t: Target, topic: str) -> Fields:
    """Fetch v4, the lowest version that carries batches."""
    topics = [{"topic": topic, "partitions": [fetched(0)]}]
    answer = t.call("fetch", 4, max_bytes=1 << 20, topics=topics)
    row: Fields = answer["responses"][0]["partitions"][0]
    return row


@probe("fetch")
def codecs(t: Target) -> Outcome:
    """Batches of each codec in old and new versions. KIP-110 kept zstd from Fetch below v10; Kafka 4.0 sends it."""
    out = {}
    for name, codec in CODECS.items():
        topic = t.topic()
        assert t.verdict(topic, batch([b"x" * 100] * 3, codec=codec)) == "NONE"
        for version, row in (("v4", _fetch_v4(t, topic)), ("v12", t.fetch(topic, 0))):
            served = [header.attributes for header in headers_of(row["records"] or b"")]
            out[f"{name}, {version}"] = [error_of(row), served]
    return out


@probe("fetch")
def strange_isolation_level(t: Target) -> Outcome:
    topic = t.topic()
    with t.connect() as t.connection:
        try:
            return _shape(t.fetch(topic, 0, isolation=2))
        except ClosedError:
            return "closed"
        except TimeoutError:
            return "no answer"


@probe("fetch")
def isolation(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    _fill(t, topic, 1)
    t.add_partitions(who, topic)
    t.txn_produce(who, topic, 0, b"a", b"b")
    _fill(t, topic, 1)
    out = {
        "ongoing, uncommitted": _shape(t.fetch(topic, 0)),
        "ongoing, committed": _shape(t.fetch(topic, 0, isolation=1)),
        "ongoing, committed at LSO": _shape(t.fetch(topic, 2, isolation=1), 2),
        "ongoing, committed between LSO and HW": _shape(t.fetch(topic, 4, isolation=1), 4),
        "latest, uncommitted": t.list_offset(topic, -1)["offset"],
        "latest, committed": t.list_offset(topic, -1, isolation=1)["offset"],
    }
    t.end(who, False)
    t.await_stable(topic)
    out["aborted, uncommitted"] = _shape(t.fetch(topic, 0))
    out["aborted, committed"] = _shape(t.fetch(topic, 0, isolation=1))
    return out


@probe("fetch")
def size_limits(t: Target) -> Outcome:
    topic = t.topic(partitions=2)
    for index in (0, 1):
        for _ in range(3):
            t.produce(topic, batch([b"x" * 1000]), index=index)

    def both(max_bytes: int, partition_max_bytes: int) -> list[Any]:
        parts = [fetched(0, index, partition_max_bytes) for index in (0, 1)]
        topics = [{"topic": topic, "partitions": parts}]
        waits = {"max_wait_ms": 100, "min_bytes": 1}
        answer = t.call("fetch", 12, **waits, max_bytes=max_bytes, topics=topics)
        return [
            sum(b.count for b in headers_of(p["records"]))
            for p in answer["responses"][0]["partitions"]
        ]

    return {
        "large": both(1 << 20, 1 << 20),
        "partition limit 1": both(1 << 20, 1),
        "partition limit two batches": both(1 << 20, 2200),
        "total limit 1": both(1, 1 << 20),
        "total limit two batches": both(2200, 1 << 20),
        "zero": both(0, 0),
    }


@probe("fetch")
def waiting(t: Target) -> Outcome:
    topic = t.topic()
    started = time.monotonic()
    row = t.fetch(topic, 0, max_wait_ms=300, min_bytes=1)
    waited = time.monotonic() - started
    started = time.monotonic()
    t.fetch(topic, 7, max_wait_ms=600_000, min_bytes=1)
    erring = time.monotonic() - started
    return {
        "at the end": _shape(row),
        "waited": waited > 0.25,
        "an error does not wait": erring < 600,
    }


def _session(
    t: Target,
    topic: str,
    session: int,
    epoch: int,
    parts: list[int] | None = None,
    forget: list[int] | None = None,
    offset: int = 0,
) -> Fields:
    rows = [fetched(offset, index) for index in parts or []]
    return t.call(
        "fetch",
        12,
        max_bytes=1 << 24,
        session_id=session,
        session_epoch=epoch,
        topics=[{"topic": topic, "partitions": rows}] if rows else [],
        forgotten_topics_data=[{"topic": topic, "partitions": forget}] if forget else [],
    )


def _seen(answer: Fields) -> list[Any]:
    rows = [
        [p["partition_index"], error_of(p), len(headers_of(p["records"] or b""))]
        for x in answer["responses"]
        for p in x["partitions"]
    ]
    return [error_of(answer), *sorted(rows)]


@probe("fetch")
def sessions(t: Target) -> Outcome:
    topic = t.topic(partitions=3)
    t.produce(topic, batch(), index=0)
    full = _session(t, topic, 0, 0, [0, 1])
    session = full["session_id"]
    out: dict[str, Any] = {"full": [_seen(full), session != 0]}
    out["incremental, nothing asked"] = _seen(_session(t, topic, session, 1))
    out["offset moved"] = _seen(_session(t, topic, session, 2, [0], offset=1))
    out["nothing new"] = _seen(_session(t, topic, session, 3))
    t.produce(topic, batch(), index=1)
    out["news in 1"] = _seen(_session(t, topic, session, 4))
    out["added 2, forgot 1"] = _seen(_session(t, topic, session, 5, [2], [1]))
    out["wrong epoch"] = _seen(_session(t, topic, session, 9))
    out["right epoch after it"] = _seen(_session(t, topic, session, 6))
    out["unknown partition in a session"] = _seen(_session(t, topic, session, 7, [9]))
    out["unknown session"] = _seen(_session(t, topic, 123_456, 1))
    closed = _session(t, topic, session, -1, [0])
    out["closed by epoch -1"] = [_seen(closed), closed["session_id"]]
    out["after closing"] = _seen(_session(t, topic, session, 7))
    sessionless = _session(t, topic, 0, -1, [0])
    out["sessionless"] = [_seen(sessionless), sessionless["session_id"]]
    return out


@probe("list_offsets")
def specials(t: Target) -> Outcome:
    topic, empty = t.topic(), t.topic()
    for delta in (0, 200, 100):
        rows = [Rec(value=b"a", timestamp_delta=0), Rec(value=b"b", timestamp_delta=50)]
        t.produce(topic, batch(rows, base_timestamp=TIMESTAMP + delta))

    def ask(name: str, timestamp: int, **rest: Any) -> list[Any]:
        row = t.list_offset(name, timestamp, **rest)
        at = row["timestamp"]
        if isinstance(at, int) and at > 0:
            at -= TIMESTAMP
        return [error_of(row), row["offset"], at, row["leader_epoch"]]

    out: dict[str, Any] = {}
    for name, which in (("filled", topic), ("empty", empty)):
        for word, timestamp in (
            ("earliest", -2),
            ("latest", -1),
            ("max timestamp", -3),
            ("earliest local", -4),
            ("latest tiered", -5),
            ("unknown special", -7),
        ):
            out[f"{name}, {word}"] = ask(which, timestamp, version=9)
    for word, delta in (
        ("before all", -1),
        ("exact 1", 50),
        ("between", 60),
        ("200", 200),
        ("last", 250),
        ("after all", 251),
    ):
        out[f"by time, {word}"] = ask(topic, TIMESTAMP + delta)
    out["by time 0"] = ask(topic, 0)
    out["unknown topic"] = ask(t.name(), -1)
    out["unknown partition"] = ask(topic, -1, index=4)
    out["leader epoch ahead"] = ask(topic, -1, leader_epoch=7)
    out["max timestamp at v6"] = ask(topic, -3, version=6)
    out["earliest local at v7"] = ask(topic, -4, version=7)
    return out


@probe("list_offsets")
def under_transactions(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    t.produce(topic, batch([b"a"], base_timestamp=TIMESTAMP))
    t.add_partitions(who, topic)
    data = t.txn_batch(who, 0, b"b", base_timestamp=TIMESTAMP + 100)
    t.produce(topic, data, transactional_id=who.transactional_id)
    t.produce(topic, batch([b"c"], base_timestamp=TIMESTAMP + 200))
    out: dict[str, Any] = {}
    for isolation_level in (0, 1):
        for word, timestamp in (
            ("latest", -1),
            ("earliest", -2),
            ("max", -3),
            ("at 100", TIMESTAMP + 100),
            ("at 150", TIMESTAMP + 150),
        ):
            row = t.list_offset(topic, timestamp, isolation=isolation_level)
            out[f"{word}, isolation {isolation_level}"] = [
                error_of(row),
                row["offset"],
            ]
    return out


@probe("list_offsets")
def by_time_over_markers(t: Target) -> Outcome:
    """ListOffsets by time across a transaction of old records, whose marker in Kafka carries the commit time."""
    topic, who = t.topic(), t.transactional()
    t.add_partitions(who, topic)
    data = t.txn_batch(who, 0, b"a", base_timestamp=TIMESTAMP)
    t.produce(topic, data, transactional_id=who.transactional_id)
    t.end(who, True)
    t.await_stable(topic)
    for delta in (100, 200):
        t.produce(topic, batch([b"b"], base_timestamp=TIMESTAMP + delta))
    end = t.list_offset(topic, -1)["offset"]
    out: dict[str, Any] = {}
    for word, delta in (("first", 0), ("second", 100), ("third", 150), ("behind all", 300)):
        row = t.list_offset(topic, TIMESTAMP + delta, isolation=1)
        out[word] = -1 if row["offset"] == -1 else end - row["offset"]
    return out


@probe("list_offsets")
def for_leader_epoch(t: Target) -> Outcome:
    topic = t.topic()
    _fill(t, topic, 2)

    def ask(name: str, epoch: int, current: int = -1, index: int = 0) -> list[Any]:
        part = {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
        answer = t.call(
            "offset_for_leader_epoch",
            4,
            replica_id=-2,
            topics=[{"topic": name, "partitions": [part]}],
        )
        row = answer["topics"][0]["partitions"][0]
        return [error_of(row), row["leader_epoch"], row["end_offset"]]

    return {
        "0": ask(topic, 0),
        "5": ask(topic, 5),
        "-1": ask(topic, -1),
        "empty log": ask(t.topic(), 0),
        "current epoch ahead": ask(topic, 0, 5),
        "unknown topic": ask(t.name(), 0),
        "unknown partition": ask(topic, 0, index=8),
    }
