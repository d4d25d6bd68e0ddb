"""Tests that every probe is answered as Apache Kafka 4.4 answers it, except for intended differences.

tests/golden/capture.py records the answers of Kafka in tests/golden/probes_kafka_4_4.json.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from lacuna.testing import Cluster as LacunaCluster

from .conftest import Given
from .hurry import raise_epoch
from .probes import GOLDEN, run
from .probing import PROBES

RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())


Differences = dict[str, tuple[Any, str]]

TYPED = "S11: Kafka says UNKNOWN_SERVER_ERROR where it did not foresee the mistake"
MARKERS = {
    "abort": {
        "sent": "NONE",
        "old epoch": "INVALID_PRODUCER_EPOCH",
        "marker": "NONE",
        "again": "INVALID_PRODUCER_EPOCH",
        "then produce": "INVALID_PRODUCER_EPOCH",
        "then EndTxn commit": "PRODUCER_FENCED",
    },
    "commit": {
        "sent": "NONE",
        "old epoch": "TRANSACTION_COORDINATOR_FENCED",
        "marker": "TRANSACTION_COORDINATOR_FENCED",
        "again": "TRANSACTION_COORDINATOR_FENCED",
        "then produce": "NONE",
        "then EndTxn commit": "NONE",
    },
}
UNKNOWN = ["UNKNOWN_TOPIC_OR_PARTITION", -1, -1, -1, None, [], "bytes"]
SET_PRODUCED = "0000000100000001000eTOPIC000000010000000000000000000000000000"


def _produced(more: dict[str, Any], **rest: Any) -> dict[str, Any]:
    row = {"base_offset": "int", "error_code": "NONE", "index": 0} | more
    return {"responses": [{"name": "str", "partition_responses": [row]}], **rest}


# probe → path of keys → (what Lacuna answers, why). docs/protocol.md documents the same.
DIFFERENCES: dict[str, Differences] = {
    "consumer_groups.many_members": {
        "uniform, different topics": ([2, 2, 2], "S26: balanced also where subscriptions differ"),
    },
    "consumer_groups.offsets": {
        "fetch, no member but an epoch": (["UNKNOWN_MEMBER_ID", []], TYPED),
    },
    "fetch.isolation": {
        "aborted, committed": (
            ["NONE", 6, 6, 0, 0, [0, 5], "bytes"],
            "S1: no offset for the control record; S14: aborted_transactions is empty",
        ),
        "aborted, uncommitted": (["NONE", 6, 6, 0, None, [0, 5], "bytes"], "S1"),
    },
    "txn.producers_after_the_end": {
        "nothing was sent": (
            [],
            "S1: no marker tells the partition of a producer that wrote nothing",
        ),
    },
    "txn.write_txn_markers": {
        "abort": (MARKERS["abort"], "S21: an outside abort ends the whole transaction and bumps"),
        "commit": (MARKERS["commit"], "S21: a commit from outside is refused"),
        "no transaction": ("INVALID_TXN_STATE", "S21: nothing to abort; Kafka's marker is a stray"),
    },
    "end_txn.after_the_coordinator_aborted": {
        "v5/commit": ("PRODUCER_FENCED", "S5; a client treats both as fatal"),
    },
    "txn.timeout_aborts": {
        "TV2/commit": ("PRODUCER_FENCED", "S5; a client treats both as fatal"),
    },
    "admin.create_topics": {
        "factor 5": ([["NONE", 1, 1]], "there are no replicas: any factor is accepted"),
        "assignment to an unknown broker": ([["NONE", 1, 1]], "there are no replicas to assign"),
    },
    "admin.configs": {"unknown operation": ("INVALID_CONFIG", TYPED)},
    "admin.metadata_creates": {
        "first answer": ("NONE", "one control plane, one step: the topic is there at once"),
    },
    "fetch.addressing": {
        "unknown partition": (UNKNOWN, "S14: aborted_transactions null where nothing was read"),
        "unknown topic": (UNKNOWN, "S14, the same"),
    },
    "fetch.strange_isolation_level": {
        "": (["NONE", 0, 0, 0, None, [], "bytes"], "what is not read_committed is uncommitted"),
    },
    "list_offsets.by_time_over_markers": {
        "first": (3, "S1: no marker between it and the end"),
        "second": (2, "S1: Kafka's marker is found, with the time of the commit"),
        "third": (1, "S1, the same"),
        "behind all": (-1, "S1, the same"),
    },
    "list_offsets.under_transactions": {
        "max, isolation 1": (["NONE", 0], "S21: the largest among what may be read"),
    },
    "produce.control_batch_from_client": {
        "control, transactional, with producer id": (
            "INVALID_RECORD",
            "S11: of two mistakes the batch's own is told first",
        ),
    },
    "produce.producer_fields": {
        "id with epoch -1": ("INVALID_RECORD", "S11: half an identity is a mistake"),
        "transactional bit, no producer id": ("INVALID_RECORD", "S11"),
    },
    "produce.timestamps": {
        "log append time bit from client": (
            "INVALID_TIMESTAMP",
            "S11: the type of timestamp is the topic's to choose",
        ),
    },
    "txn.init_producer_id_aborts_the_ongoing": {
        "first answer": ("NONE", "S4: coordinator and log commit in one step; nothing to await"),
    },
    "txn.late_after_the_end": {
        "TV1/late plain batch with the old epoch": (
            "NONE",
            "S10: Kafka's is an effect of the verification entry that the late batch before left",
        ),
    },
    "txn.produce_with_wrong_identity": {
        "v12 unknown transactional id": (
            "INVALID_PRODUCER_ID_MAPPING",
            "S11: Kafka does not look once a partition is in the transaction",
        ),
        "v12 empty transactional id": ("INVALID_REQUEST", "S11, the same"),
    },
    "produce.framing": {
        "bytes after the batch": ("INVALID_RECORD", "S11: exactly one batch; Kafka drops the rest"),
        "length too small": ("INVALID_RECORD", "S11: what is left stands behind the batch"),
        "null": ("INVALID_RECORD", "S11: Kafka never answers"),
    },
    "produce.unknown_codec": dict.fromkeys(
        ("5", "6", "7"), ("UNSUPPORTED_COMPRESSION_TYPE", TYPED)
    ),
    "produce.garbage_in_compressed_payload": dict.fromkeys(
        ("gzip", "snappy", "lz4", "zstd"), ("INVALID_RECORD", TYPED)
    ),
    "produce.counts": {
        "deltas 0, 2": ("INVALID_RECORD", "S11: records are walked, compressed or not"),
        "deltas 1, 0": ("INVALID_RECORD", "S11, the same"),
        "deltas 0, 2, gzip": ("INVALID_RECORD", TYPED),
    },
    "produce.versions_0_to_2": {
        "v0": (SET_PRODUCED, "S24: message sets are served, as Kafka did up to 3.9"),
        "v1": (SET_PRODUCED[:-1] + "100000000", "S24"),
        "v2": (SET_PRODUCED[:-1] + "2ffffffffffffffff00000000", "S24"),
    },
    "configs.as_shown": {
        "mirror.source": (["", 2, False, False, True], "Lacuna's own, of topics that are imported"),
    },
    "configs.of_brokers": {
        "log.flush.interval.ms": (
            [5, None, [["INVALID_REQUEST"] * 2] * 3],
            "bounds of topic configs hold for their defaults too",
        ),
        "log.retention.ms": (
            [5, None, [["INVALID_REQUEST"] * 2] * 3],
            "the same: -7 is no time",
        ),
        "min.insync.replicas": (
            [3, "1", [["NONE"] * 2, *[["INVALID_REQUEST"] * 2] * 2]],
            "without eligible leader replicas, one broker may have its own",
        ),
    },
    "configs.of_groups": {
        "listed": (True, "Kafka omits a group with a value that has blanks"),
    },
    "versions.every_api": {
        "produce/v0": (_produced({}), "S24: message sets are served, as Kafka did up to 3.9"),
        "produce/v1": (_produced({}, throttle_time_ms=0), "S24"),
        "produce/v2": (_produced({"log_append_time_ms": -1}, throttle_time_ms=0), "S24"),
        "produce/v3": (None, "the same as v2"),
        "share_acknowledge/v1/error_message": ("str", "names the group"),
        "share_acknowledge/v2/error_message": ("str", "the same"),
        "share_fetch/v1/error_message": ("str", "the same"),
        "streams_group_topology_description_update/v0/error_code": (
            "GROUP_ID_NOT_FOUND",
            "descriptions are kept without a plugin",
        ),
    },
}


def _compare(expected: Any, got: Any, differences: Differences, path: str) -> list[str]:
    """Return the paths at which the two answers differ, as lines for the assertion's message."""
    if path in differences:
        wanted = differences[path][0]
        return [] if wanted == got else [f"{path}: {got!r}, Lacuna's rule: {wanted!r}"]
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
def test_answers_as_kafka_does(
    name: str, cluster: Given | LacunaCluster, bootstrap: str, is_kafka: bool
) -> None:
    """S4, S5, S7-S15, S21, S26: the same mistake gets the same error."""
    differences = {} if is_kafka else DIFFERENCES.get(name, {})
    if isinstance(cluster, Given):
        found = run(name, bootstrap)
    else:
        found = run(name, bootstrap, cluster.advance, partial(raise_epoch, cluster))
    lines = _compare(RECORDED[name], found, differences, "")
    assert not lines, "\n".join(lines)


def test_every_difference_is_one() -> None:
    """Each recorded difference is Lacuna's current answer, and differs from Kafka's."""
    for name, rows in DIFFERENCES.items():
        for path, (ours, _) in rows.items():
            found = RECORDED[name]
            for key in filter(None, path.split("/")):
                found = found.get(key)  # Kafka lacks what only Lacuna has
            assert found != ours, f"{name}: {path}"
