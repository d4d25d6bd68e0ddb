"""Captures request and response frames of a transaction's life at many versions.

frames.bin contains all frames, concatenated. frames.json holds [api, version, position and size of the request,
position and size of the response]. Frames lack their four bytes of length. A request begins with its header, and a
response with its correlation id.
"""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

from tests.clients.batch import batch
from tests.clients.probes_groups import commit_offset
from tests.clients.probes_txn_offsets import add_offsets, txn_commit
from tests.clients.probing import Producer, Target
from tests.clients.wire import API_KEYS

KEPT = frozenset(
    {
        "add_offsets_to_txn", "add_partitions_to_txn", "api_versions", "create_topics",
        "describe_producers", "describe_transactions", "end_txn", "fetch", "find_coordinator",
        "init_producer_id", "list_offsets", "list_transactions", "metadata", "offset_commit",
        "offset_fetch", "offset_for_leader_epoch", "produce", "txn_offset_commit",
    }
)  # fmt: skip


def _transactions(t: Target, topic: str, group: str) -> None:
    """Run one transaction at each version of EndTxn, committed and aborted in turn."""
    for version in range(6):
        tid = t.name("t")
        more = {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
        answer = t.settled(
            "init_producer_id", version, transactional_id=tid, transaction_timeout_ms=60_000, **more
        )
        who = Producer(answer, tid)
        if version < 5:
            t.add_partitions(who, topic, version=min(version, 3))
            add_offsets(t, who, group, min(version, 3))
        t.txn_produce(who, topic, 0, b"x", version=12 if version == 5 else 11)
        txn_commit(t, who, group, topic, version=version)
        _describe(t, topic, tid)
        t.end_txn(who, version % 2 == 0, version)
    t.await_stable(topic)


def _describe(t: Target, topic: str, tid: str) -> None:
    t.call("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
    t.call("describe_transactions", 0, transactional_ids=[tid])
    for version in (0, 1):
        more = {"duration_filter": -1} if version else {}
        t.call(
            "list_transactions", version, state_filters=["Ongoing"], producer_id_filters=[], **more
        )


def _batched_add(t: Target, topic: str) -> None:
    who = t.transactional()
    row = {**who.fields, "verify_only": False, "topics": [{"name": topic, "partitions": [0]}]}
    for version in (4, 5):
        t.settled("add_partitions_to_txn", version, transactions=[row])
    t.end(who, False)
    t.await_stable(topic)


def _produce(t: Target, topic: str, topic_id: uuid.UUID) -> None:
    for version in range(3, 14):
        where: dict[str, Any] = {"topic_id": topic_id} if version >= 13 else {"name": topic}
        rows = [{"index": 0, "records": batch([b"produce"])}]
        t.call(
            "produce", version, transactional_id=None, acks=-1, timeout_ms=1000,
            topic_data=[{**where, "partition_data": rows}],
        )  # fmt: skip


def _fetch(t: Target, topic: str, topic_id: uuid.UUID) -> None:
    """Fetch the aborted transactions in every version of Fetch."""
    for version in range(4, 19):
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2000}
        part |= {"log_start_offset": -1} if version >= 5 else {}
        part |= {"current_leader_epoch": -1} if version >= 9 else {}
        part |= {"last_fetched_epoch": -1} if version >= 12 else {}
        where: dict[str, Any] = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
        fields: dict[str, Any] = {"replica_id": -1} if version < 15 else {}
        fields |= {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 2000, "isolation_level": 1}
        if version >= 7:
            fields |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        fields |= {"rack_id": ""} if version >= 11 else {}
        t.call("fetch", version, **fields, topics=[{**where, "partitions": [part]}])


def _offsets(t: Target, topic: str) -> None:
    for version in range(1, 12):
        part: dict[str, Any] = {"partition_index": 0, "timestamp": -1}
        part |= {"current_leader_epoch": -1} if version >= 4 else {}
        fields: dict[str, Any] = {"isolation_level": 1} if version >= 2 else {}
        fields |= {"timeout_ms": 1000} if version >= 10 else {}
        rows = [{"name": topic, "partitions": [part]}]
        t.call("list_offsets", version, replica_id=-1, **fields, topics=rows)
    for version in range(2, 5):
        part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        rows = [{"topic": topic, "partitions": [part]}]
        more = {"replica_id": -2} if version >= 3 else {}
        t.call("offset_for_leader_epoch", version, **more, topics=rows)


def capture(bootstrap: str, directory: pathlib.Path) -> None:
    """Run one life of a topic and write its frames."""
    log: list[tuple[str, int, bytes, bytes]] = []
    t = Target(bootstrap, log)
    topic, group = t.topic(), t.name("g")
    topic_id = t.id_of(topic)
    t.coordinator(group, 0)
    t.coordinator(t.name("t"), 1)  # Kafka creates its topic of transactions at the first call
    commit_offset(t, group, topic, 1)
    _produce(t, topic, topic_id)
    _transactions(t, topic, group)
    _batched_add(t, topic)
    _fetch(t, topic, topic_id)
    _offsets(t, topic)
    t.close()
    data = bytearray()
    index = []
    last_of: dict[tuple[str, int, int], None] = {}
    for api, version, request, response in log:
        shape = (api, version, len(response))
        if api not in KEPT or shape in last_of:
            continue
        last_of[shape] = None
        place = [len(data), len(request), len(data) + len(request), len(response)]
        data += request + response
        index.append([api, API_KEYS[api], version, *place])
    (directory / "frames.bin").write_bytes(data)
    rows = ",\n".join(json.dumps(row) for row in index)
    (directory / "frames.json").write_text(f"[\n{rows}\n]\n")
