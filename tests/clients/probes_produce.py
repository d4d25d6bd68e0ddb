"""Probes of Produce: which batches are accepted (S11), and how idempotence answers (S10)."""

from __future__ import annotations

import struct
import time
import uuid
import zlib
from typing import Any

from .batch import CODECS, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, Rec, batch
from .probing import Outcome, Target, creatable, error_of, probe
from .wire import ClosedError

CONTROL_KEY, CONTROL_VALUE = b"\0\0\0\1", b"\0\0\0\0\0\0"


def _end(target: Target, topic: str) -> int:
    offset: int = target.list_offset(topic, -1)["offset"]
    return offset


@probe("produce")
def codecs(t: Target) -> Outcome:
    out: dict[str, Any] = {}
    for name, codec in CODECS.items():
        row = t.produce(t.topic(), batch([b"a", b"b"], codec=codec))
        out[name] = [error_of(row), row["base_offset"], row["log_append_time_ms"]]
    out["zstd at produce v6"] = t.verdict(t.topic(), batch(codec=4), version=6)
    return out


@probe("produce")
def empty_values_and_headers(t: Target) -> Outcome:
    records = [
        Rec(key=None, value=None),
        Rec(key=b"", value=b""),
        Rec(headers=((b"", None), (b"h", b""))),
    ]
    return t.verdict(t.topic(), batch(records))


@probe("produce")
def bad_crc(t: Target) -> Outcome:
    topic = t.topic()
    return [t.verdict(topic, batch(crc_xor=1)), _end(t, topic)]


@probe("produce")
def bad_batch_fails_alone(t: Target) -> Outcome:
    topic = t.topic(partitions=3)
    rows = t.produce_many([(topic, 0, batch()), (topic, 1, batch(crc_xor=1)), (topic, 2, batch())])
    return sorted([row["index"], error_of(row), row["base_offset"]] for row in rows)


@probe("produce")
def control_batch_from_client(t: Target) -> Outcome:
    topic = t.topic()
    record = Rec(key=CONTROL_KEY, value=CONTROL_VALUE)
    who = t.idempotent()
    return {
        "control": t.verdict(topic, batch([record], attributes=CONTROL)),
        "control, transactional, with producer id": t.verdict(
            topic,
            batch(
                [record], attributes=CONTROL | TRANSACTIONAL, producer_id=who.id, producer_epoch=0
            ),
        ),
        "end": _end(t, topic),
    }


@probe("produce")
def unknown_codec(t: Target) -> Outcome:
    out: dict[str, str] = {}
    for codec in (5, 6, 7):
        out[str(codec)] = t.verdict_or_hang_up(t.topic(), batch(codec=codec))
    return out


@probe("produce")
def garbage_in_compressed_payload(t: Target) -> Outcome:
    return {
        name: t.verdict(t.topic(), batch(codec=codec, payload=b"\x99garbage" * 4))
        for name, codec in CODECS.items()
        if codec
    }


@probe("produce")
def size_limit(t: Target) -> Outcome:
    topic = t.topic(max_message_bytes=1000)
    exact = batch([b"x" * (1000 - 61 - 9)])
    return {
        "over by far": t.verdict(topic, batch([b"x" * 2000])),
        "exact size": [len(exact), t.verdict(topic, exact)],
        "one more": t.verdict(topic, batch([b"x" * (1000 - 61 - 8)])),
        "large, compressed to less": t.verdict(topic, batch([b"x" * 5000], codec=3)),
    }


@probe("produce")
def counts(t: Target) -> Outcome:
    two = [b"a", b"b"]
    return {
        "count too high": t.verdict(t.topic(), batch(two, count=3)),
        "count too low": t.verdict(t.topic(), batch(two, count=1)),
        "count too high, gzip": t.verdict(t.topic(), batch(two, count=3, codec=1)),
        "count too low, gzip": t.verdict(t.topic(), batch(two, count=1, codec=1)),
        "last_offset_delta too high": t.verdict(t.topic(), batch(two, last_offset_delta=2)),
        "last_offset_delta too low": t.verdict(t.topic(), batch(two, last_offset_delta=0)),
        "last_offset_delta too high, gzip": t.verdict(
            t.topic(), batch(two, last_offset_delta=2, codec=1)
        ),
        "no records": t.verdict(t.topic(), batch([], count=0, last_offset_delta=-1)),
        "no records, delta 0": t.verdict(t.topic(), batch([], count=0, last_offset_delta=0)),
        "negative count": t.verdict(t.topic(), batch(two, count=-1)),
        "deltas 0, 2": t.verdict(t.topic(), batch([Rec(offset_delta=0), Rec(offset_delta=2)])),
        "deltas 0, 2, gzip": t.verdict(
            t.topic(), batch([Rec(offset_delta=0), Rec(offset_delta=2)], codec=1)
        ),
        "deltas 0, 2 with count 2 and last 2": t.verdict(
            t.topic(), batch([Rec(offset_delta=0), Rec(offset_delta=2)], last_offset_delta=2)
        ),
        "deltas 1, 0": t.verdict(t.topic(), batch([Rec(offset_delta=1), Rec(offset_delta=0)])),
    }


@probe("produce")
def broken_records(t: Target) -> Outcome:
    good = batch([b"abc"])
    out = {}
    cases = {
        "bytes after the last record": batch([b"a"], payload=good[61:] + b"\0\0"),
        "record cut short": batch([b"a"], payload=good[61:-1]),
        "record longer than its length": batch([b"a"], payload=b"\x0c" + good[62:]),
        "negative record length": batch([b"a"], payload=b"\x01"),
        "key length beyond the record": batch([b"a"], payload=b"\x0a\0\0\0\x7e\x00"),
        "negative header count": batch([b"a"], payload=b"\x0c\0\0\0\x01\x01\x01"),
        "payload missing": batch([b"a"], payload=b""),
    }
    for name, data in cases.items():
        out[name] = t.verdict_or_hang_up(t.topic(), data)
    return out


@probe("produce")
def framing(t: Target) -> Outcome:
    one = batch()
    out = {}
    cases: dict[str, bytes | None] = {
        "two batches": one + one,
        "zero bytes": b"",
        "null": None,
        "cut short": one[:-3],
        "less than a header": one[:30],
        "length too large": batch(length_add=10),
        "length too small": batch(length_add=-5),
        "bytes after the batch": one + b"\0" * 5,
        "magic 3": batch(magic=3),
        "magic 1": batch(magic=1),
        "magic 0": batch(magic=0),
    }
    for name, data in cases.items():
        out[name] = t.verdict_or_hang_up(t.topic(), data)
    return out


@probe("produce")
def compacted_topic_needs_keys(t: Target) -> Outcome:
    topic = t.name()
    row = creatable(topic, cleanup_policy="compact")
    created = error_of(t.call("create_topics", 7, topics=[row])["topics"][0])
    if created != "NONE":
        return {"creation refused": created}
    while not t.has_logs(topic, 1):
        pass
    row = t.produce(topic, batch([Rec(key=b"k"), Rec(key=None), Rec(key=None)]))
    return {
        "some without": error_of(row),
        "record_errors": [r["batch_index"] for r in row["record_errors"]],
        "has error_message": row["error_message"] is not None,
        "tombstone": t.verdict(topic, batch([Rec(key=b"k", value=None)])),
        "end": _end(t, topic),
    }


@probe("produce")
def record_errors(t: Target) -> Outcome:
    """The records that the answer lists, if some have no key or a timestamp too far in the future."""
    topic = t.topic(cleanup_policy="compact")
    now, ahead = int(time.time() * 1000), 7_200_000
    keys = [b"k" if place % 3 else None for place in range(10)]
    keyless = [Rec(key=key) for key in keys]
    late = [Rec(key=b"k", timestamp_delta=ahead * (place % 2)) for place in range(10)]
    both = [Rec(key=key, timestamp_delta=ahead * (place % 2)) for place, key in enumerate(keys)]
    cases = {
        "one without a key": batch([Rec(key=b"k"), Rec(), Rec(key=b"k")]),
        "some without a key": batch(keyless),
        "some without a key, gzip": batch(keyless, codec=1),
        "all without a key": batch([Rec()] * 10),
        "some too late": batch(late, base_timestamp=now),
        "both": batch(both, base_timestamp=now),
    }
    out = {}
    for name, data in cases.items():
        row = t.produce(topic, data)
        named = [error["batch_index"] for error in row["record_errors"]]
        reasons = [error["batch_index_error_message"] is not None for error in row["record_errors"]]
        said = all(reasons) and row["error_message"] is not None
        out[name] = [error_of(row), row["base_offset"], named, said]
    return out


@probe("produce")
def timestamps(t: Target) -> Outcome:
    far = 4_000_000_000_000
    log_append = t.topic(message_timestamp_type="LogAppendTime")
    row = t.produce(log_append, batch())
    served = t.produce(log_append, batch([b"a", b"b"], codec=1))
    return {
        "future": t.verdict(t.topic(), batch(base_timestamp=far)),
        "none (-1)": t.verdict(t.topic(), batch(base_timestamp=-1)),
        "minus 5": t.verdict(t.topic(), batch(base_timestamp=-5)),
        "zero": t.verdict(t.topic(), batch(base_timestamp=0)),
        "log append time bit from client": t.verdict(t.topic(), batch(attributes=LOG_APPEND_TIME)),
        "the same on a LogAppendTime topic": t.verdict(
            log_append, batch(attributes=LOG_APPEND_TIME)
        ),
        "delete horizon bit from client": t.verdict(t.topic(), batch(attributes=DELETE_HORIZON)),
        "LogAppendTime answers a time": row["log_append_time_ms"] > 0,
        "LogAppendTime, gzip, answers a time": served["log_append_time_ms"] > 0,
        "LogAppendTime, future": t.verdict(log_append, batch(base_timestamp=far)),
        "max_timestamp wrong": t.verdict(t.topic(), batch(max_timestamp=5)),
    }


@probe("produce")
def addressing(t: Target) -> Outcome:
    topic = t.topic()
    unknown = t.produce(t.name(), batch())
    by_id = t.call(
        "produce",
        13,
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            {"topic_id": uuid.uuid4(), "partition_data": [{"index": 0, "records": batch()}]},
            {"topic_id": t.id_of(topic), "partition_data": [{"index": 0, "records": batch()}]},
        ],
    )
    return {
        "unknown topic": [error_of(unknown), unknown["base_offset"]],
        "unknown partition": t.verdict(topic, batch(), index=7),
        "negative partition": t.verdict(topic, batch(), index=-1),
        "invalid topic name": t.verdict("no/good", batch()),
        "unknown and known topic id": sorted(
            error_of(p) for r in by_id["responses"] for p in r["partition_responses"]
        ),
        "base offset 99": t.verdict(topic, batch(base_offset=99)),
        "partition leader epoch 7": t.verdict(topic, batch(partition_leader_epoch=7)),
        "end": _end(t, topic),
    }


@probe("produce")
def acks(t: Target) -> Outcome:
    topic = t.topic()
    t.connection.send(
        "produce",
        11,
        {
            "transactional_id": None,
            "acks": 0,
            "timeout_ms": 1000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch()}]}],
        },
    )
    return {
        "1": t.verdict(topic, batch(), acks=1),
        "2": t.verdict(topic, batch(), acks=2),
        "-2": t.verdict(topic, batch(), acks=-2),
        "end, with the unanswered acks=0": _end(t, topic),
    }


@probe("produce")
def acks_0_with_error_closes(t: Target) -> Outcome:
    with t.connect() as connection:
        rows = [{"index": 0, "records": batch(crc_xor=1)}]
        request = {
            "transactional_id": None,
            "acks": 0,
            "timeout_ms": 1000,
            "topic_data": [{"name": t.topic(), "partition_data": rows}],
        }
        connection.send("produce", 11, request)
        try:
            return connection.call("api_versions", 0)["error_code"]
        except ClosedError:
            return "closed"


@probe("produce")
def versions_0_to_2(t: Target) -> Outcome:
    message = b"\0\0" + b"\xff\xff\xff\xff" + struct.pack(">i", 1) + b"v"
    entry = struct.pack(">I", zlib.crc32(message)) + message
    message_set = struct.pack(">qi", 0, len(entry)) + entry
    topic = t.topic().encode()
    out = {}
    for version in range(3):
        body = struct.pack(">hii", 1, 1000, 1) + struct.pack(">h", len(topic)) + topic
        body += struct.pack(">iii", 1, 0, len(message_set)) + message_set
        frame = struct.pack(">hhih", 0, version, 1, 1) + b"p" + body
        with t.connect() as connection:
            try:
                connection.send_frame(frame)
                out[f"v{version}"] = connection.receive_frame().hex().replace(topic.hex(), "TOPIC")
            except ClosedError:
                out[f"v{version}"] = "closed"
    return out


@probe("produce")
def producer_fields(t: Target) -> Outcome:
    who = t.idempotent()
    tx = t.transactional()
    fields = {"producer_id": who.id, "producer_epoch": who.epoch}
    return {
        "id without sequence": t.verdict(t.topic(), batch(**fields)),  # type: ignore[arg-type]
        "sequence -2": t.verdict(t.topic(), batch(**fields, base_sequence=-2)),  # type: ignore[arg-type]
        "id with epoch -1": t.verdict(t.topic(), batch(producer_id=who.id, base_sequence=0)),
        "transactional bit, no producer id": t.verdict(
            t.topic(), batch(attributes=TRANSACTIONAL), transactional_id=tx.transactional_id
        ),
        "transactional batch, request without transactional id": t.verdict(
            t.topic(), t.txn_batch(tx, 0)
        ),
        "plain batch, request with transactional id": t.verdict(
            t.topic(), batch(), transactional_id=tx.transactional_id
        ),
        "transactional batch, wrong transactional id": t.verdict(
            t.topic(), t.txn_batch(tx, 0), transactional_id="someone-else", version=12
        ),
        "sequence without producer id": t.verdict(t.topic(), batch(base_sequence=3)),
    }
