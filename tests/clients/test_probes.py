"""Every probe answers as Apache Kafka 4.1 did, but for the differences that are meant.

The recorded answers are in tests/golden/probes_kafka_4_1.json (tests/golden/capture.py makes them).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from .probes import GOLDEN, run
from .probing import PROBES

RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())


class OneOf(tuple[Any, ...]):
    """Any of these values is right."""


class AnyError:
    """Any error name, but not NONE."""


ANYTHING = object()
TYPED = (AnyError, "S11: a typed error where Kafka says UNKNOWN_SERVER_ERROR")

# probe → path of keys → (what Lacuna answers, why)
DIFFERENCES: dict[str, dict[str, tuple[Any, str]]] = {
    "fetch.isolation": {
        "aborted, committed": (
            ["NONE", 6, 6, 0, 0, [0, 5], "bytes"],
            "S1: no offset for the control record; S14: aborted_transactions is empty",
        ),
        "aborted, uncommitted": (["NONE", 6, 6, 0, None, [0, 5], "bytes"], "S1"),
    },
    "txn.write_txn_markers": {
        "abort": (ANYTHING, "S21: an outside abort ends the whole transaction and bumps"),
        "commit": (ANYTHING, "S21: a commit from outside is refused"),
        "no transaction": (ANYTHING, "S21: nothing to abort; Kafka writes a stray marker"),
    },
    "end_txn.after_the_coordinator_aborted": {
        "v5/commit": (OneOf(("PRODUCER_FENCED", "INVALID_TXN_STATE")), "S5; fatal to clients both"),
    },
    "txn.timeout_aborts": {
        "TV2/commit": (
            OneOf(("PRODUCER_FENCED", "INVALID_TXN_STATE")),
            "S5; fatal to clients both",
        ),
    },
    "admin.create_topics": {
        "factor 5": (ANYTHING, "there are no replicas: any factor is accepted"),
        "factor 0": (ANYTHING, "there are no replicas"),
        "assignment to an unknown broker": (ANYTHING, "there are no replicas to assign"),
    },
    "admin.configs": {
        "unknown operation": TYPED,
    },
    "admin.metadata_creates": {
        "first answer": (ANYTHING, "the topic is there at once: one control plane, one step"),
    },
    "fetch.addressing": {
        "unknown partition": (ANYTHING, "aborted_transactions null instead of empty"),
        "unknown topic": (ANYTHING, "the same"),
    },
    "fetch.strange_isolation_level": {"": (ANYTHING, "no client sends it")},
    "list_offsets.under_transactions": {
        "max, isolation 1": (
            OneOf((["NONE", 0], ["NONE", -1])),
            "S21: the largest among what may be read; Kafka gives up",
        ),
    },
    "produce.compacted_topic_needs_keys": {
        "record_errors": ([1], "the first record without a key is named, not each"),
    },
    "produce.control_batch_from_client": {
        "control, transactional, with producer id": (AnyError, "two mistakes, either may be told"),
    },
    "produce.producer_fields": {
        "id with epoch -1": (AnyError, "S11: an identity that is half there is a mistake"),
        "transactional bit, no producer id": (AnyError, "S11: a producer id where transactional"),
    },
    "produce.timestamps": {
        "log append time bit from client": (
            OneOf(("NONE", "INVALID_TIMESTAMP")),
            "the type of timestamp is the topic's to choose",
        ),
    },
    "txn.init_producer_id_aborts_the_ongoing": {
        "first answer": (ANYTHING, "S4: coordinator and log commit in one step; nothing to await"),
    },
    "txn.late_after_the_end": {
        "TV1/late plain batch with the old epoch": (
            ANYTHING,
            "in Kafka an effect of its verification entry, which the late batch before left",
        ),
    },
    "txn_offsets.wrong_identity": {
        "AddOffsetsToTxn, empty group": (OneOf(("NONE", "INVALID_GROUP_ID")), "earlier is kinder"),
        "TxnOffsetCommit, empty group": (AnyError, "the group was never added"),
    },
    "produce.framing": {
        "bytes after the batch": (
            OneOf(("NONE", "INVALID_RECORD")),
            "S11: exactly one batch; Kafka drops the rest",
        ),
        "length too small": (
            OneOf(("CORRUPT_MESSAGE", "INVALID_RECORD")),
            "what is left over stands behind the batch",
        ),
        "null": (AnyError, "Kafka never answers; a client of ours is told"),
    },
    "produce.unknown_codec": dict.fromkeys(("5", "6", "7"), TYPED),
    "produce.garbage_in_compressed_payload": dict.fromkeys(
        ("gzip", "snappy", "lz4", "zstd"), TYPED
    ),
    "produce.counts": {
        "deltas 0, 2": (OneOf(("NONE", "INVALID_RECORD")), "S11: records are walked"),
        "deltas 1, 0": (OneOf(("NONE", "INVALID_RECORD")), "S11: records are walked"),
        "deltas 0, 2, gzip": TYPED,
    },
    "produce.versions_0_to_2": {
        "v0": (ANYTHING, "S24: UNSUPPORTED_VERSION, later converted"),
        "v1": (ANYTHING, "S24"),
        "v2": (ANYTHING, "S24"),
    },
    "frames.unknown_api_or_version": {
        "SaslHandshake v0 without SASL": (ANYTHING, "SASL is not served yet"),
    },
    "frames.not_kafka": {
        "name that is not UTF-8": (ANYTHING, "Java replaces the bytes; a refusal is as good"),
    },
}


def _matches(expected: Any, got: Any) -> bool:
    if expected is ANYTHING:
        return True
    if expected is AnyError:
        return isinstance(got, str) and got != "NONE" and got == got.upper()
    if isinstance(expected, OneOf):
        return got in expected
    return bool(expected == got)


def _compare(
    expected: Any, got: Any, differences: dict[str, tuple[Any, str]], path: str
) -> list[str]:
    """The paths at which the two part, as lines for the assertion's message."""
    if path in differences:
        wanted = differences[path][0]
        return [] if _matches(wanted, got) else [f"{path}: {got!r}, Lacuna's rule: {wanted!r}"]
    if isinstance(expected, dict) and isinstance(got, dict):
        return [
            line
            for key in sorted(expected.keys() | got.keys())
            for line in _compare(
                expected.get(key), got.get(key), differences, f"{path}/{key}" if path else key
            )
        ]
    return [] if expected == got else [f"{path}: {got!r}, Kafka: {expected!r}"]


@pytest.mark.parametrize("name", sorted(PROBES))
def test_answers_as_kafka_does(name: str, bootstrap: str, is_kafka: bool) -> None:
    """S4, S5, S7-S15, S21, S26: the same error for the same mistake."""
    differences = {} if is_kafka else DIFFERENCES.get(name, {})
    lines = _compare(RECORDED[name], run(name, bootstrap), differences, "")
    assert not lines, "\n".join(lines)


def test_every_difference_names_a_recorded_answer() -> None:
    for name, rows in DIFFERENCES.items():
        for path in rows:
            found = RECORDED[name]
            for key in path.split("/"):
                found = found[key]
