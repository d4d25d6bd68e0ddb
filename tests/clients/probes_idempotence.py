"""Probes of idempotent producers: duplicates, gaps, epochs, sequences that wrap around (S10)."""

from __future__ import annotations

from typing import Any

from .batch import batch
from .probing import Outcome, Producer, Target, error_of, probe


def _send(
    t: Target, topic: str, who: Producer, sequence: int, count: int = 1, **rest: Any
) -> list[Any]:
    epoch = rest.pop("epoch", who.epoch)
    data = batch(
        [b"v"] * count, producer_id=who.id, producer_epoch=epoch, base_sequence=sequence, **rest
    )
    row = t.produce(topic, data)
    return [error_of(row), row["base_offset"]]


@probe("idempotence")
def duplicates_of_the_last_five(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    first = [_send(t, topic, who, n * 2, 2) for n in range(7)]
    again = [_send(t, topic, who, n * 2, 2) for n in range(7)]
    return {"first": first, "again": again, "end": t.list_offset(topic, -1)["offset"]}


@probe("idempotence")
def gaps_and_overlaps(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    return {
        "0-4": _send(t, topic, who, 0, 5),
        "gap of one": _send(t, topic, who, 6),
        "overlap 3-7": _send(t, topic, who, 3, 5),
        "within 1-2": _send(t, topic, who, 1, 2),
        "prefix 0-3": _send(t, topic, who, 0, 4),
        "the right one": _send(t, topic, who, 5),
        "same first, other count": _send(t, topic, who, 5, 2),
        "next": _send(t, topic, who, 6),
    }


@probe("idempotence")
def first_sequence_without_state(t: Target) -> Outcome:
    who = t.idempotent()
    return {
        "17": _send(t, t.topic(), who, 17),
        "2^31-1": _send(t, t.topic(), who, 2**31 - 1),
        "unknown producer id": _send(
            t, t.topic(), Producer({"producer_id": 1 << 50, "producer_epoch": 3}, None), 5
        ),
    }


@probe("idempotence")
def epochs(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    return {
        "epoch 0": _send(t, topic, who, 0, epoch=0),
        "epoch 3 from 5": _send(t, topic, who, 5, epoch=3),
        "epoch 3 from 0": _send(t, topic, who, 0, epoch=3),
        "epoch 2, old": _send(t, topic, who, 1, epoch=2),
        "epoch 0, a duplicate of before": _send(t, topic, who, 0, epoch=0),
        "epoch 3 next": _send(t, topic, who, 1, epoch=3),
    }


@probe("idempotence")
def sequence_wraps(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    top = 2**31 - 1
    return {
        "top - 2, three records": _send(t, topic, who, top - 2, 3),
        "0": _send(t, topic, who, 0),
        "1": _send(t, topic, who, 1),
        "duplicate below the wrap": _send(t, topic, who, top - 2, 3),
        "across in one batch": _send(t, t.topic(), who, top - 1, 4),
    }


@probe("idempotence")
def wrap_inside_one_batch(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    top = 2**31 - 1
    return {
        "top - 1, four records": _send(t, topic, who, top - 1, 4),
        "2": _send(t, topic, who, 2),
        "duplicate": _send(t, topic, who, top - 1, 4),
    }


@probe("idempotence")
def log_append_time_of_a_duplicate(t: Target) -> Outcome:
    topic, who = t.topic(message_timestamp_type="LogAppendTime"), t.idempotent()
    data = batch([b"v"], producer_id=who.id, producer_epoch=who.epoch, base_sequence=0)
    one, two = t.produce(topic, data), t.produce(topic, data)
    return {
        "errors": [error_of(one), error_of(two)],
        "same offset": one["base_offset"] == two["base_offset"],
        "duplicate's time": "the same"
        if one["log_append_time_ms"] == two["log_append_time_ms"]
        else ("none" if two["log_append_time_ms"] == -1 else "another"),
        "log start offset": [one["log_start_offset"], two["log_start_offset"]],
    }


@probe("idempotence")
def pipelined(t: Target) -> Outcome:
    topic, who = t.topic(), t.idempotent()
    rows = []
    for sequence in (0, 1, 1, 2, 4, 3):
        data = batch(producer_id=who.id, producer_epoch=who.epoch, base_sequence=sequence)
        request = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": data}]}],
        }
        t.connection.send("produce", 11, request)
    for _ in range(6):
        answer = t.connection.receive("produce", 11)
        row = answer["responses"][0]["partition_responses"][0]
        rows.append([error_of(row), row["base_offset"]])
    return rows


@probe("idempotence")
def init_producer_id(t: Target) -> Outcome:
    one, two = t.idempotent(), t.idempotent()
    again = t.call(
        "init_producer_id",
        4,
        transactional_id=None,
        transaction_timeout_ms=60_000,
        producer_id=one.id,
        producer_epoch=one.epoch,
    )
    empty = t.call("init_producer_id", 4, transactional_id="", transaction_timeout_ms=60_000)
    return {
        "ids differ": one.id != two.id,
        "epochs": [one.epoch, two.epoch],
        "timeout is not looked at": error_of(
            t.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=-5)
        ),
        "with an id and epoch": [
            error_of(again),
            again["producer_id"] == one.id,
            again["producer_epoch"],
        ],
        "empty transactional id": error_of(empty),
    }
