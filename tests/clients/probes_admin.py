"""Probes of topics, configs and the cluster."""

from __future__ import annotations

import uuid
from typing import Any

from .batch import batch
from .probing import Outcome, Target, creatable, error_of, probe
from .wire import Fields


def _create(t: Target, *rows: Fields, version: int = 7, validate_only: bool = False) -> list[Any]:
    answer = t.call("create_topics", version, topics=list(rows), validate_only=validate_only)
    order = {row["name"]: index for index, row in enumerate(rows)}
    found = sorted(answer["topics"], key=lambda row: order[row["name"]])
    return [[error_of(row), row["num_partitions"], row["replication_factor"]] for row in found]


@probe("admin")
def create_topics(t: Target) -> Outcome:
    name = t.name()
    twice = t.name()
    bad = {
        "empty name": "",
        "dot": ".",
        "dots": "..",
        "slash": "a/b",
        "space": "a b",
        "too long": "x" * 250,
        "longest": "x" * 217 + uuid.uuid4().hex,
    }
    out: dict[str, Any] = {word: _create(t, creatable(value)) for word, value in bad.items()}
    out |= {
        "good": _create(t, creatable(name, 3)),
        "again": _create(t, creatable(name, 3)),
        "twice in one request": _create(t, creatable(twice), creatable(twice)),
        "partitions 0": _create(t, creatable(t.name(), 0)),
        "partitions -1 (default)": _create(t, creatable(t.name(), -1)),
        "partitions -2": _create(t, creatable(t.name(), -2)),
        "factor -1 (default)": _create(t, creatable(t.name(), 1, -1)),
        "factor 0": _create(t, creatable(t.name(), 1, 0)),
        "factor 5": _create(t, creatable(t.name(), 1, 5)),
        "unknown config": _create(t, creatable(t.name(), no_such_config="1")),
        "bad config value": _create(t, creatable(t.name(), retention_ms="many")),
        "config out of range": _create(t, creatable(t.name(), max_message_bytes="-1")),
        "bad enum": _create(t, creatable(t.name(), cleanup_policy="shred")),
        "validate only": _create(t, creatable(t.name(), 2), validate_only=True),
        "validate only, exists": _create(t, creatable(name), validate_only=True),
        "one good, one bad": _create(t, creatable(t.name()), creatable("a/b")),
    }
    dotted = t.name() + ".x_y"
    out["dots and underscores collide"] = [
        _create(t, creatable(dotted)),
        _create(t, creatable(dotted.replace(".", "_"))),
    ]
    assigned = creatable(t.name(), -1, -1)
    assigned["assignments"] = [{"partition_index": 0, "broker_ids": [99]}]
    out["assignment to an unknown broker"] = _create(t, assigned)
    return out


@probe("admin")
def create_partitions(t: Target) -> Outcome:
    topic = t.topic(partitions=2)

    def grow(name: str, count: int, validate_only: bool = False) -> str:
        answer = t.call(
            "create_partitions",
            3,
            timeout_ms=5000,
            validate_only=validate_only,
            topics=[{"name": name, "count": count, "assignments": None}],
        )
        return error_of(answer["results"][0])

    return {
        "fewer": grow(topic, 1),
        "the same": grow(topic, 2),
        "0": grow(topic, 0),
        "-1": grow(topic, -1),
        "unknown": grow(t.name(), 3),
        "validate only": grow(topic, 5, True),
        "more": grow(topic, 4),
        "partitions now": len(t.metadata(topic)["partitions"]),
    }


@probe("admin")
def delete_topics(t: Target) -> Outcome:
    def by_name(name: str) -> str:
        answer = t.call("delete_topics", 5, topic_names=[name], timeout_ms=5000)
        return error_of(answer["responses"][0])

    def by_id(which: uuid.UUID) -> str:
        rows = [{"name": None, "topic_id": which}]
        answer = t.call("delete_topics", 6, topics=rows, timeout_ms=5000)
        return error_of(answer["responses"][0])

    topic, other = t.topic(), t.topic()
    which = t.id_of(other)
    both = t.call(
        "delete_topics", 6, timeout_ms=5000, topics=[{"name": topic, "topic_id": t.id_of(topic)}]
    )
    return {
        "unknown name": by_name(t.name()),
        "name and id": error_of(both["responses"][0]),
        "known": by_name(topic),
        "again": by_name(topic),
        "unknown id": by_id(uuid.uuid4()),
        "zero id": by_id(uuid.UUID(int=0)),
        "known id": by_id(which),
    }


@probe("admin")
def recreated_topic_is_another(t: Target) -> Outcome:
    topic = t.topic()
    before = t.id_of(topic)
    t.produce(topic, batch())
    t.call("delete_topics", 5, topic_names=[topic], timeout_ms=5000)
    while _create(t, creatable(topic))[0][0] != "NONE":
        pass
    while not t.has_logs(topic, 1):
        pass
    return {
        "another id": t.id_of(topic) != before,
        "end": t.list_offset(topic, -1)["offset"],
    }


@probe("admin")
def metadata(t: Target) -> Outcome:
    topic = t.topic(partitions=2)

    def ask(version: int, topics: list[Fields] | None, **over: Any) -> Fields:
        return t.call("metadata", version, topics=topics, allow_auto_topic_creation=False, **over)

    def named(name: str | None, which: uuid.UUID | None = None) -> list[Any]:
        row = ask(12, [{"topic_id": which or uuid.UUID(int=0), "name": name}])["topics"][0]
        return [
            error_of(row),
            row["name"] == topic,
            row["topic_id"].int != 0,
            len(row["partitions"]),
        ]

    row = ask(12, [{"topic_id": uuid.UUID(int=0), "name": topic}])
    part = row["topics"][0]["partitions"][0]
    return {
        "known": named(topic),
        "unknown": named(t.name()),
        "invalid name": named("a/b"),
        "empty name": named(""),
        "known id": named(None, t.id_of(topic)),
        "unknown id": named(None, uuid.uuid4()),
        "no topics": len(ask(12, [])["topics"]),
        "all topics hold it": topic in [x["name"] for x in ask(12, None)["topics"]],
        "leader epoch": part["leader_epoch"],
        "replicas and isr": [len(part["replica_nodes"]), len(part["isr_nodes"])],
        "controller is a broker": row["controller_id"] in [b["node_id"] for b in row["brokers"]],
        "authorized operations when not asked": row["topics"][0]["topic_authorized_operations"],
    }


@probe("admin")
def metadata_creates(t: Target) -> Outcome:
    name = t.name()

    def ask(topic: str) -> str:
        answer = t.call(
            "metadata",
            12,
            topics=[{"topic_id": uuid.UUID(int=0), "name": topic}],
            allow_auto_topic_creation=True,
        )
        return error_of(answer["topics"][0])

    first, second = ask(name), ask(name)
    while second != "NONE":
        second = ask(name)
    return {
        "first answer": first,
        "then": second,
        "partitions": len(t.metadata(name)["partitions"]),
        "invalid name": ask("a/b"),
    }


@probe("admin")
def configs(t: Target) -> Outcome:
    topic = t.name()
    _create(t, creatable(topic, max_message_bytes=12345))
    while t.metadata(topic)["error_code"] != 0:
        pass

    def describe(kind: int, name: str, keys: list[str] | None = None) -> list[Any]:
        answer = t.call(
            "describe_configs",
            4,
            resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        )
        row = answer["results"][0]
        named = keys or []
        return [
            error_of(row),
            sorted(
                [c["name"], c["value"], c["config_source"], c["read_only"]]
                for c in row["configs"]
                if c["name"] in named
            ),
        ]

    def alter(
        name: str, key: str, op: int, value: str | None, kind: int = 2, check: bool = False
    ) -> str:
        config = {"name": key, "config_operation": op, "value": value}
        answer = t.call(
            "incremental_alter_configs",
            1,
            validate_only=check,
            resources=[{"resource_type": kind, "resource_name": name, "configs": [config]}],
        )
        return error_of(answer["responses"][0])

    keys = ["max.message.bytes", "retention.ms", "cleanup.policy", "message.timestamp.type"]
    return {
        "known topic": describe(2, topic, keys),
        "unknown key": describe(2, topic, ["no.such.key"]),
        "unknown topic": describe(2, t.name(), keys),
        "invalid topic": describe(2, "a/b", keys),
        "unknown broker": describe(4, "77"),
        "broker that is no number": describe(4, "seven"),
        "unknown resource type": describe(99, "x"),
        "set": alter(topic, "retention.ms", 0, "1000"),
        "set, unknown key": alter(topic, "no.such.key", 0, "1"),
        "set, bad value": alter(topic, "retention.ms", 0, "many"),
        "set, null": alter(topic, "retention.ms", 0, None),
        "append to a scalar": alter(topic, "retention.ms", 2, "5"),
        "append to a list": alter(topic, "cleanup.policy", 2, "compact"),
        "unknown operation": alter(topic, "retention.ms", 9, "5"),
        "unknown topic, set": alter(t.name(), "retention.ms", 0, "5"),
        "validate only": alter(topic, "max.message.bytes", 0, "777", check=True),
        "delete": alter(topic, "max.message.bytes", 1, None),
        "after": describe(2, topic, keys),
    }


@probe("admin")
def delete_records(t: Target) -> Outcome:
    topic = t.topic()
    t.produce(topic, batch([b"v"] * 5))

    def cut(name: str, offset: int, index: int = 0) -> list[Any]:
        rows = [{"name": name, "partitions": [{"partition_index": index, "offset": offset}]}]
        answer = t.call("delete_records", 2, topics=rows, timeout_ms=5000)
        row = answer["topics"][0]["partitions"][0]
        return [error_of(row), row["low_watermark"]]

    return {
        "beyond the end": cut(topic, 6),
        "to 2": cut(topic, 2),
        "back to 1": cut(topic, 1),
        "-2": cut(topic, -2),
        "unknown topic": cut(t.name(), 1),
        "unknown partition": cut(topic, 1, 5),
        "all (-1)": cut(topic, -1),
        "earliest then": t.list_offset(topic, -2)["offset"],
    }


@probe("admin")
def describe_cluster(t: Target) -> Outcome:
    def ask(**over: Any) -> list[Any]:
        answer = t.call("describe_cluster", 1, **over)
        return [
            error_of(answer),
            len(answer["brokers"]) > 0,
            answer["endpoint_type"],
        ]

    return {
        "brokers": ask(),
        "controllers": ask(endpoint_type=2),
        "unknown type": ask(endpoint_type=9),
    }
