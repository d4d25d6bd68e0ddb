"""Captures record sets as Kafka serves them, and the records that another reader decodes from them.

records.json contains each set's bytes in hex, its batches (from their headers) and its records (from librdkafka,
reading uncommitted). This allows logstore to be checked against independent bytes and an independent decoder.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from tests.clients.batch import LOG_APPEND_TIME, Rec, batch, headers_of
from tests.clients.librd import UNCOMMITTED, consumer, producer, send, transaction
from tests.clients.probing import Target

JAVA = pathlib.Path(__file__).parent.parent / "java"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIME = 1_760_000_000_000


def _librdkafka(t: Target, codec: str, **configs: Any) -> str:
    """Write a batch of unusual records with librdkafka."""
    topic = t.topic(**configs)
    who = producer(t.bootstrap, compression_type=codec, linger_ms=200)
    rows: list[tuple[bytes | None, bytes | None, Any]] = [
        (b"key", b"value", []),
        (None, b"no key" * 20, [("a", b"1"), ("a", b""), ("null", None)]),
        (b"tombstone", None, []),
        (b"", b"", []),
    ]
    for delta, (key, value, headers) in enumerate(rows):
        who.produce(topic, value, key, partition=0, headers=headers, timestamp=TIME + delta * 1000)
    who.flush(20)
    return topic


def _java(t: Target, codec: str, transactional_id: str | None = None) -> str:
    """Write ten records with the Java client. With a transactional id, five of them are aborted."""
    topic = t.topic()
    target = JAVA / "target"
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", f"{target / 'classes'}:{target / 'libs'}/*", "lacuna.Capture"]
    command += [t.bootstrap, topic, codec, *([transactional_id] if transactional_id else [])]
    subprocess.run(command, check=True)
    return topic


def _interleaved(t: Target) -> str:
    """Write with two transactional producers, one of which aborts, and an idempotent one between them."""
    topic = t.topic()
    aborted, committed = producer(t.bootstrap, t.name("t")), producer(t.bootstrap, t.name("t"))
    plain = producer(t.bootstrap, enable_idempotence=True)
    aborted.begin_transaction()
    committed.begin_transaction()
    for number in range(3):
        send(aborted, topic, [b"aborted-%d" % number])
        send(plain, topic, [b"plain-%d" % number])
        send(committed, topic, [b"committed-%d" % number])
    aborted.abort_transaction(30)
    committed.commit_transaction(30)
    transaction(committed, topic, [b"last"], commit=False)
    return topic


def _compacted(t: Target) -> str:
    """Overwrite keys until the cleaner has left holes within and between batches."""
    topic = t.topic(
        cleanup_policy="compact",
        segment_ms=200,
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms=0,
    )
    for round_number in range(4):
        keys = (b"a", b"b", b"once-%d" % round_number, b"c")
        rows = [Rec(key=key, value=b"round %d" % round_number) for key in keys]
        t.produce(topic, batch(rows, codec=round_number, base_timestamp=TIME + round_number))
    deadline = time.monotonic() + 60
    stamp = TIME
    while time.monotonic() < deadline:
        time.sleep(0.5)
        stamp += 1000  # segments roll by the records' own time
        t.produce(topic, batch([Rec(key=b"tick", value=b"")], base_timestamp=stamp))
        served = headers_of(_served(t, topic)[0])
        if any(b.count <= b.last_offset - b.base_offset for b in served):
            return topic
    raise TimeoutError("the cleaner did not compact the topic")


def _by_hand(t: Target) -> str:
    """Write batches with attributes that clients rarely set: LogAppendTime from the client, or no timestamp."""
    topic = t.topic()
    t.produce(topic, batch([b"its own append time"], attributes=LOG_APPEND_TIME))
    t.produce(topic, batch([b"no time"], base_timestamp=-1))
    who = t.idempotent()
    t.produce(topic, batch([b"a", b"b"], producer_id=who.id, producer_epoch=0, base_sequence=7))
    return topic


def _served(t: Target, topic: str) -> tuple[bytes, int]:
    """Return all record sets up to the high watermark, and the high watermark. A fetch ends at the end of a segment."""
    data, position = b"", 0
    while True:
        row = t.fetch(topic, position)
        batches = headers_of(row["records"])
        if not batches:
            return data, row["high_watermark"]
        data += row["records"]
        position = batches[-1].last_offset + 1


def _decoded(t: Target, topic: str, end: int) -> list[list[Any]]:
    """Return every record as librdkafka reads it: offset, timestamp, key, value, headers (bytes in hex)."""
    who = consumer(t.bootstrap, UNCOMMITTED)
    who.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows: list[list[Any]] = []
    position = 0
    while position < end:
        message = who.poll(1)
        if message is not None and message.error() is None:
            pairs: Any = message.headers() or []
            headers = [[name, _hex(value)] for name, value in pairs]
            key, value = _hex(message.key()), _hex(message.value())
            rows.append([message.offset(), message.timestamp()[1], key, value, headers])
        position = max(position, who.position([TopicPartition(topic, 0)])[0].offset)
    who.close()
    return rows


def _hex(data: Any) -> str | None:
    return None if data is None else bytes(data).hex()


def _controls(records: bytes) -> list[list[int]]:
    """Return control records: offset, type, coordinator epoch. They are uncompressed and all have the same layout."""
    found = []
    for seen in headers_of(records):
        if seen.is_control:
            body = records[seen.position + 61 : seen.position + seen.size]
            key, value = body[5:9], body[10:16]
            offset, kind = seen.last_offset, int.from_bytes(key[2:4], "big")
            found.append([offset, kind, int.from_bytes(value[2:6], "big")])
    return found


def _entry(t: Target, topic: str, what: str, records: bytes, high_watermark: int) -> dict[str, Any]:
    names: tuple[str, ...] = (
        "base_offset",
        "last_offset",
        "producer_id",
        "producer_epoch",
        "base_sequence",
    )
    names += ("attributes", "count", "partition_leader_epoch", "base_timestamp", "max_timestamp")
    return {
        "what": what,
        "bytes": records.hex(),
        "batches": [{name: getattr(b, name) for name in names} for b in headers_of(records)],
        "control_records": _controls(records),
        "records": _decoded(t, topic, high_watermark),
    }


def capture(t: Target, path: pathlib.Path) -> None:
    """Write all record sets into a file."""
    sets: dict[str, tuple[str, str]] = {}
    for codec in CODECS:
        sets[f"librdkafka_{codec}"] = (_librdkafka(t, codec), f"librdkafka's producer, {codec}")
        sets[f"java_{codec}"] = (_java(t, codec), f"the Java 4.4 producer (idempotent), {codec}")
    append_time = _librdkafka(t, "lz4", message_timestamp_type="LogAppendTime")
    sets["log_append_time"] = (append_time, "librdkafka, lz4, to a LogAppendTime topic")
    tv2 = _java(t, "zstd", t.name("t"))
    sets["java_transactions"] = (tv2, "TV2: five records committed, five aborted")
    sets["interleaved"] = (
        _interleaved(t),
        "TV1: aborted, plain and committed producers interleaved",
    )
    sets["compacted"] = (_compacted(t), "a compacted topic with holes")
    sets["by_hand"] = (_by_hand(t), "LogAppendTime bit from the client, no timestamp, sequence 7")
    index = {}
    for name, (topic, what) in sets.items():
        t.await_stable(topic)
        data, end = _served(t, topic)
        index[name] = _entry(t, topic, what, data, end)
    path.write_text(json.dumps(index, indent=1) + "\n")
