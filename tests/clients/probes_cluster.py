"""Probes of requests from tools to a cluster: partitions, log directories, elections, the quorum and features."""

from __future__ import annotations

from typing import Any

from .batch import batch
from .probing import Outcome, Target, error_name, error_of, probe
from .wire import Fields

METADATA_TOPIC = "__cluster_metadata"


def _named(t: Target, known: dict[str, str], name: str) -> str:
    """Return the word in `known` that stands for a name that varies, or the name itself."""
    return next((word for word, real in known.items() if real == name), name)


@probe("cluster")
def topic_partitions(t: Target) -> Outcome:
    names = sorted([t.topic(partitions=3), t.topic(partitions=3)])
    known = {"first": names[0], "second": names[1]}

    def ask(
        topics: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
    ) -> list[Any]:
        answer = t.call(
            "describe_topic_partitions",
            0,
            topics=[{"name": name} for name in topics],
            response_partition_limit=limit,
            cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
        )
        at = answer["next_cursor"]
        return [
            [
                [
                    error_of(row),
                    _named(t, known, row["name"]),
                    row["topic_id"].int != 0,
                    [part["partition_index"] for part in row["partitions"]],
                    row["topic_authorized_operations"],
                ]
                for row in answer["topics"]
            ],
            at and [_named(t, known, at["topic_name"]), at["partition_index"]],
        ]

    part = t.call(
        "describe_topic_partitions",
        0,
        topics=[{"name": names[0]}],
        response_partition_limit=1,
    )["topics"][0]["partitions"][0]
    return {
        "both, the other way round": ask(names[::-1]),
        "limit 1": ask(names, 1),
        "limit 0": ask(names, 0),
        "limit 4": ask(names, 4),
        "from a cursor": ask(names, 10, (names[1], 1)),
        "from a cursor behind the partitions": ask(names, 10, (names[0], 9)),
        "from a negative partition": ask(names, 10, (names[0], -1)),
        "from a topic that was not asked for": ask(names, 10, ("zzz", 0)),
        "unknown": ask(["nope"]),
        "illegal": ask(["a/b"]),
        "known and unknown": ask([names[0], "zzz"]),
        "twice": ask([names[0], names[0]]),
        "a partition": {
            key: len(value) if isinstance(value, list) else value
            for key, value in part.items()
            if key != "leader_id"
        },
    }


@probe("cluster")
def log_dirs(t: Target) -> Outcome:
    name = t.topic(partitions=2)
    t.produce(name, batch([b"v" * 1000]))

    def ask(version: int, topics: list[Fields] | None) -> list[Any]:
        directories = t.of_all("describe_log_dirs", version, "results", topics=topics)
        sizes = {
            part["partition_index"]: part["partition_size"] > 0
            for directory in directories
            for row in directory["topics"]
            if row["name"] == name
            for part in row["partitions"]
        }
        errors = {error_of(directory) for directory in directories}
        return [sorted(errors), sorted(sizes.items())]

    return {
        **{f"v{v}": ask(v, [{"topic": name, "partitions": [0, 1, 7]}]) for v in range(1, 5)},
        "all": ask(4, None),
        "none": ask(4, []),
        "unknown": ask(4, [{"topic": "nope", "partitions": [0]}]),
    }


@probe("cluster")
def alter_replica_log_dirs(t: Target) -> Outcome:
    name = t.topic()
    here = t.call("describe_log_dirs", 4, topics=[])["results"][0]["log_dir"]

    def move(path: str) -> list[Any]:
        rows = [{"name": name, "partitions": [0, 9]}, {"name": "nope", "partitions": [0]}]
        answer = t.call("alter_replica_log_dirs", 2, dirs=[{"path": path, "topics": rows}])
        return sorted(
            [row["topic_name"] == name, part["partition_index"], error_of(part)]
            for row in answer["results"]
            for part in row["partitions"]
        )

    return {"here": move(here), "elsewhere": move("/nope"), "no path": move("")}


@probe("cluster")
def elect_leaders(t: Target) -> Outcome:
    name = t.topic(partitions=2)

    def elect(version: int, kind: int | None, topics: list[Fields] | None) -> list[Any]:
        given = {} if kind is None else {"election_type": kind}
        answer = t.call("elect_leaders", version, topic_partitions=topics, timeout_ms=5000, **given)
        rows = answer["replica_election_results"]
        return [
            error_name(answer.get("error_code", 0)),
            [
                [part["partition_id"], error_of(part), part["error_message"]]
                for row in rows
                if row["topic"] == name
                for part in row["partition_result"]
            ],
            [
                error_of(part)
                for row in rows
                if row["topic"] == "nope"
                for part in row["partition_result"]
            ],
        ]

    asked = [{"topic": name, "partitions": [0]}, {"topic": "nope", "partitions": [0]}]
    return {
        "v0": elect(0, None, asked),
        "v1, preferred": elect(1, 0, asked),
        "preferred": elect(2, 0, asked),
        "unclean": elect(2, 1, asked),
        "unknown type": elect(2, 2, asked),
        "all": elect(2, 0, None),
        "none": elect(2, 0, []),
    }


@probe("cluster")
def reassignments(t: Target) -> Outcome:
    name = t.topic()
    leader = t.metadata(name)["partitions"][0]["leader_id"]

    def assign(
        replicas: list[int] | None, topic: str = name, index: int = 0, version: int = 0
    ) -> list[Any]:
        row = {"partition_index": index, "replicas": replicas}
        answer = t.call(
            "alter_partition_reassignments",
            version,
            timeout_ms=5000,
            topics=[{"name": topic, "partitions": [row]}],
            **({"allow_replication_factor_change": False} if version else {}),
        )
        (result,) = answer["responses"][0]["partitions"]
        return [error_of(answer), error_of(result)]

    def listed(topics: list[Fields] | None) -> list[Any]:
        answer = t.call("list_partition_reassignments", 0, timeout_ms=5000, topics=topics)
        return [error_of(answer), answer["topics"]]

    return {
        "as it is": assign([leader]),
        "as it is, v1": assign([leader], version=1),
        "unknown broker": assign([leader, 777]),
        "twice": assign([leader, leader]),
        "nobody": assign([]),
        "negative": assign([-1]),
        "cancel": assign(None),
        "unknown partition": assign([leader], index=9),
        "unknown topic": assign([leader], topic="nope"),
        "listed": listed([{"name": name, "partition_indexes": [0, 9]}]),
        "all listed": listed(None),
    }


@probe("cluster")
def quorum(t: Target) -> Outcome:
    def ask(version: int, topic: str = METADATA_TOPIC, index: int = 0) -> list[Any]:
        rows = [{"topic_name": topic, "partitions": [{"partition_index": index}]}]
        answer = t.call("describe_quorum", version, topics=rows)
        (part,) = answer["topics"][0]["partitions"]
        voters = part["current_voters"]
        return [
            error_of(answer),
            error_of(part),
            part["leader_epoch"] > 0,  # as many elections as there were
            [voter["replica_id"] == part["leader_id"] for voter in voters],
            [voter["log_end_offset"] >= part["high_watermark"] for voter in voters],
            sorted(voters[0]) if voters else [],
            [node["node_id"] == part["leader_id"] for node in answer.get("nodes", [])],
        ]

    return {
        "v0": ask(0),
        "v1": ask(1),
        "v2": ask(2),
        "another partition": ask(2, index=1),
        "another topic": ask(2, "nope"),
        "no topics": t.call("describe_quorum", 2, topics=[]),
    }


@probe("cluster")
def features(t: Target) -> Outcome:
    def update(
        feature: str, level: int, kind: int = 1, version: int = 1, more: list[Fields] | None = None
    ) -> list[Any]:
        row: Fields = {"feature": feature, "max_version_level": level}
        row |= {"upgrade_type": kind} if version else {"allow_downgrade": False}
        answer = t.call(
            "update_features",
            version,
            timeout_ms=5000,
            feature_updates=[row, *(more or [])],
            **({"validate_only": True} if version else {}),
        )
        return [error_of(answer), len(answer.get("results", []))]

    known = "transaction.version"
    other = {"feature": "no.such", "max_version_level": 1}
    return {
        "as it is, v0": update(known, 2, version=0),
        "as it is": update(known, 2),
        "as it is, v2": update(known, 2, version=2),
        "metadata.version as it is": update("metadata.version", 27),
        "beyond": update(known, 3),
        "down without saying so": update(known, 1),
        "unknown": update("no.such", 1),
        "unknown type": update(known, 2, 9),
        "one good, one bad": update(known, 2, more=[other]),
    }


@probe("cluster")
def security(t: Target) -> Outcome:
    """ACLs and credentials on a cluster without either."""
    kinds = {"operation": 1, "permission_type": 1}
    names = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    acl = {"resource_type_filter": 1, "pattern_type_filter": 1, **kinds, **names}
    new = {
        "resource_type": 2,
        "resource_name": "x",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }

    def users(*asked: str) -> list[Any]:
        rows = [{"name": name} for name in asked]
        answer = t.call("describe_user_scram_credentials", 0, users=rows)
        return [
            [row["user"], error_of(row), row["error_message"]]
            for row in sorted(answer["results"], key=lambda row: str(row["user"]))
        ]

    gone = t.call("alter_user_scram_credentials", 0, deletions=[{"name": "u", "mechanism": 1}])
    return {
        "describe": t.call("describe_acls", 3, **acl),
        "create": t.call("create_acls", 3, creations=[new]),
        "delete": t.call("delete_acls", 3, filters=[acl, acl]),
        "all users": t.call("describe_user_scram_credentials", 0, users=None),
        "users": users("u", "v"),
        "a user twice": users("u", "u", "v"),
        "a user that is not there": gone,
    }


@probe("cluster")
def quotas(t: Target) -> Outcome:
    def describe(kind: str) -> Fields:
        component = {"entity_type": kind, "match": "a"}
        return t.call("describe_client_quotas", 1, components=[component])

    entity = [{"entity_type": "client-id", "entity_name": "nobody"}]
    operation = {"key": "producer_byte_rate", "value": 0.0, "remove": True}
    removed = t.call(
        "alter_client_quotas",
        1,
        entries=[{"entity": entity, "ops": [operation]}],
    )
    return {
        "of a client": describe("client-id"),
        "of a user": describe("user"),
        "of what Kafka does not know": describe("shoe"),
        "remove": removed,
    }


@probe("cluster")
def unregister_broker(t: Target) -> Outcome:
    return [
        t.call("unregister_broker", 0, broker_id=777),
        t.call("unregister_broker", 0, broker_id=-1),
    ]


@probe("cluster")
def telemetry(t: Target) -> Outcome:
    """KIP-714 on a broker that collects no metrics: the APIs are not advertised, but are answered."""
    fresh = t.call("get_telemetry_subscriptions", 0, client_instance_id=None)
    mine = fresh.pop("client_instance_id")
    subscription = fresh.pop("subscription_id")

    def push(**over: Any) -> str:
        fields = {
            "client_instance_id": mine,
            "subscription_id": subscription,
        }
        return error_of(t.call("push_telemetry", 0, **(fields | over)))

    return {
        "fresh": fresh,
        "an id": mine is not None,
        "push of another subscription": push(subscription_id=subscription + 1),
        "push without an id": push(client_instance_id=None),
    }
