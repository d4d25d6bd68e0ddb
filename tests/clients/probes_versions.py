"""Probes of every API at every version, and of what the newest versions changed.

`every_api` sends one request at each version to the same topic, group and transactional id. Its outcome has an answer
for the first version, and for each later one that is answered differently.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from lacuna.wire.kernel import BYTES
from lacuna.wire.layout import Struct
from tests.messages import REQUESTS, names

from .batch import batch
from .probes_consumer_groups import Member
from .probes_groups import commit_offset
from .probing import Outcome, Producer, Target, error_name, error_of, probe
from .wire import API_KEYS, ClosedError, Fields

NOBODY = uuid.UUID(int=1)
_CAPTURED = Path(__file__).parent.parent / "golden" / "api_versions_kafka_4_4.json"
#: API key → the versions that Kafka advertises
ADVERTISED = json.loads(_CAPTURED.read_text())["versions"]["5"]["api_keys"]
#: Fields whose values are errors, states or kinds, and not the cluster's own.
_KEPT_STRINGS = {"group_state", "group_type", "transaction_state", "protocol_type"}
_KEPT_STRINGS |= {"assignor_name", "protocol_data", "mechanisms", "protocol_name", "entity_type"}
_RENAMED = {"count_": "count", "index_": "index"}
#: Lists whose values are a cluster's own. Other probes compare them.
_OWN = {"api_keys", "brokers", "configs", "controllers", "finalized_features", "supported_features"}
_OWN |= {"current_voters", "voters", "results", "log_dirs", "nodes", "config_resources"}
FIRST_WITH_STATES = 4  # of ListGroups, which lists all groups before
#: A request for each API, ordered by key, with fields from all its versions. Most are about groups that do
#: not exist. `Filling` says what $words stand for, and which fields they have without naming them.
_REQUESTS: dict[str, Fields] = json.loads(Path(__file__).with_name("requests.json").read_text())


class Filling:
    """The subjects of requests: a topic, a group, a producer, and an unknown member and group."""

    def __init__(self, t: Target, topic: str, group: str, who: Producer) -> None:
        self._words = {"$topic": topic, "$group": group, "$records": batch([b"v"])}
        self._common: Fields = dict.fromkeys(("name", "topic", "topic_name"), topic)
        self._common |= {"topic_id": t.id_of(topic), "group_id": "$new", "member_id": "nobody"}
        self._common |= who.fields
        self._common |= {f"v3_and_below_{key}": value for key, value in who.fields.items()}

    def rename(self, unknown_group: str) -> None:
        """Use another unknown group, since some APIs create it."""
        self._words["$new"] = unknown_group

    def of_version(self, struct: Struct, version: int, fields: Fields) -> Fields:
        """Return the fields that a version has."""
        given = self._common | fields
        kinds = dict(zip(struct.make._fields, struct.fields, strict=True))
        known = {_RENAMED.get(name, name): kinds[name].kind for name in names(struct, version)}
        return {
            name: self._value(kind, version, given[name])
            for name, kind in known.items()
            if name in given
        }

    def _value(self, kind: Any, version: int, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(kind, version, each) for each in value]
        if isinstance(kind, Struct) and isinstance(value, dict):
            return self.of_version(kind, version, value)
        value = self._words.get(value, value)
        return value.encode() if kind == BYTES and isinstance(value, str) else value


def _plain(key: str, value: Any) -> Any:
    """Return a value without the parts that differ between clusters and runs."""
    if isinstance(value, dict):
        # Observers are the other agents, of which a cluster has any number.
        return {name: _plain(name, each) for name, each in value.items() if name != "observers"}
    if isinstance(value, list):
        if key in _OWN:
            return len(value) > 0
        found = [_plain(key, each) for each in value]
        # Kafka's groups have several coordinators, which answer in any order.
        return sorted(found, key=str) if key == "groups" else found
    if key.endswith("error_code"):
        return error_name(value)
    if isinstance(value, bool) or value is None or value == "":
        return value
    if value in (-1, 0) and key != "base_offset":
        return value
    if isinstance(value, str) and key in _KEPT_STRINGS:
        return value
    return type(value).__name__


@probe("versions")
def every_api(t: Target) -> Outcome:
    topic, group, who = t.topic(), t.name("g"), t.transactional()
    t.coordinator(group, 0)
    commit_offset(t, group, topic, 1)
    t.add_partitions(who, topic)
    out: dict[str, Any] = {}
    filling = Filling(t, topic, group, who)
    for api, fields in _REQUESTS.items():
        lowest, highest = ADVERTISED[str(API_KEYS[api])]
        filling.rename(t.name("g"))
        last = None
        for version in range(lowest, highest + 1):
            body = REQUESTS[API_KEYS[api]].body
            found = _answer(t, api, version, filling.of_version(body, version, fields))
            if api == "list_groups" and version < FIRST_WITH_STATES:
                del found["groups"]
            if found != last:
                out.setdefault(api, {})[f"v{version}"] = last = found
    return out


def _answer(t: Target, api: str, version: int, asked: Fields) -> Any:
    try:
        return _plain("", t.settled(api, version, **asked))
    except ClosedError:
        t.connection = t.connect()
        return "closed"


@probe("versions")
def misrouted(t: Target) -> Outcome:
    """ApiVersions v5 names the cluster and the node that the client meant (KIP-1242)."""
    here = t.call("describe_cluster", 1)["cluster_id"]
    node = t.node_id()
    cases = {
        "neither": (None, -1),
        "this cluster and node": (here, node),
        "another cluster": ("another", node),
        "another node": (here, node + 77),
        "both": ("another", node + 77),
        "this cluster alone": (here, -1),
        "another cluster alone": ("another", -1),
        "this node alone": (None, node),
        "another node alone": (None, node + 77),
        "an empty cluster": ("", node),
        "node -2": (here, -2),
    }
    out: dict[str, Any] = {}
    software = {"client_software_name": "probe", "client_software_version": "1"}
    for name, (cluster_id, node_id) in cases.items():
        with t.connect_again() as connection:
            meant = {"cluster_id": cluster_id, "node_id": node_id}
            answer = connection.call("api_versions", 5, **software, **meant)
            goes_on = connection.call("metadata", 9, topics=[])["topics"] == []
        out[name] = [
            error_of(answer),
            len(answer["api_keys"]) > 0,
            len(answer["finalized_features"]) > 0,
            goes_on,
        ]
    return out


@probe("versions")
def special_timestamps(t: Target) -> Outcome:
    """ListOffsets with all of Kafka's names for offsets, at every version that has one of them."""
    topic = t.topic()
    for number in range(3):
        t.produce(topic, batch([b"v%d" % number], base_timestamp=1000 + number))
    out: dict[str, Any] = {}
    for version in range(6, 12):
        for timestamp in range(-8, 0):
            row = t.list_offset(topic, timestamp, version=version)
            out[f"v{version}, {timestamp}"] = [
                error_of(row),
                row["offset"],
                row["timestamp"],
                row["leader_epoch"],
            ]
    return out


def _commit(
    t: Target,
    group: str,
    topic_id: uuid.UUID,
    index: int = 0,
    *,
    epoch: int = -1,
    member_id: str = "",
) -> list[str]:
    row = {"partition_index": index, "committed_offset": 3, "committed_metadata": ""}
    answer = t.settled(
        "offset_commit",
        10,
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[{"topic_id": topic_id, "partitions": [row]}],
    )
    return [error_of(row) for each in answer["topics"] for row in each["partitions"]]


def _fetch(t: Target, group: str, ids: list[uuid.UUID] | None, **over: Any) -> list[Any]:
    topics: list[Fields] | None = None
    if ids is not None:
        topics = [{"topic_id": each, "partition_indexes": [0]} for each in ids]
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics} | over
    found = t.settled("offset_fetch", 10, groups=[asked])["groups"][0]
    rows = [
        [error_of(row), row["committed_offset"], row["metadata"]]
        for each in found["topics"]
        for row in each["partitions"]
    ]
    return [error_of(found), rows]


@probe("versions")
def offsets_by_topic_id(t: Target) -> Outcome:
    """OffsetCommit and OffsetFetch v10 (KIP-848, KIP-516)."""
    topic, group = t.topic(), t.name("g")
    topic_id = t.id_of(topic)
    t.coordinator(group, 0)
    zero = uuid.UUID(int=0)
    out: dict[str, Any] = {
        "commit": _commit(t, group, topic_id),
        "commit, unknown id": _commit(t, group, NOBODY),
        "commit, zero id": _commit(t, group, zero),
        "commit, unknown partition": _commit(t, group, topic_id, 7),
        "commit, unknown member": _commit(t, group, topic_id, member_id="m"),
        "commit, epoch alone": _commit(t, group, topic_id, epoch=4),
        "commit, no group": _commit(t, t.name("g"), topic_id, epoch=4),
        "fetch": _fetch(t, group, [topic_id]),
        "fetch all": _fetch(t, group, None),
        "fetch, unknown id": _fetch(t, group, [NOBODY]),
        "fetch, zero id": _fetch(t, group, [zero]),
        "fetch, known and unknown": _fetch(t, group, [topic_id, NOBODY]),
        "fetch, no group": _fetch(t, t.name("g"), [topic_id]),
    }
    m = Member(t, t.name("g"), [topic])
    m.beat()
    for name, epoch in {"now": 0, "behind": -1, "ahead": 1}.items():
        out[f"commit, epoch {name}"] = _commit(
            t, m.group, topic_id, epoch=m.epoch + epoch, member_id=m.id
        )
        asks = {"member_epoch": m.epoch + epoch, "member_id": m.id}
        out[f"fetch, epoch {name}"] = _fetch(t, m.group, [topic_id], **asks)
    out["commit, no member"] = _commit(t, m.group, topic_id, epoch=m.epoch, member_id="nobody")
    t.call("delete_topics", 5, topic_names=[topic], timeout_ms=5000)
    while _commit(t, group, topic_id) == ["NONE"]:
        pass
    out["commit, deleted"] = _commit(t, group, topic_id)
    out["fetch, deleted"] = _fetch(t, group, [topic_id])
    return out


@probe("versions")
def transactional_offsets_by_topic_id(t: Target) -> Outcome:
    """TxnOffsetCommit v5 and v6: topic ids, and errors of their own (KIP-1319)."""
    topic = t.topic()
    topic_id = t.id_of(topic)
    m = Member(t, t.name("g"), [topic])
    m.beat()
    m.beat(server_assignor="range")
    simple = t.name("g")
    t.coordinator(simple, 0)
    commit_offset(t, simple, topic, 1)

    def commit(version: int, group: str, member: str, epoch: int, of: uuid.UUID) -> list[str]:
        who = t.transactional()
        row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
        where: Fields = {"topic_id": of} if version >= 6 else {"name": topic}
        answer = t.settled(
            "txn_offset_commit",
            version,
            **who.fields,
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[where | {"partitions": [row]}],
        )
        found = answer["topics"][0]["partitions"][0]["error_code"]
        return [error_name(found), t.end(who, False, 5)]

    out = {}
    for version in (4, 5, 6):
        cases = {
            "member": (m.group, m.id, m.epoch, topic_id),
            "epoch behind": (m.group, m.id, m.epoch - 1, topic_id),
            "epoch ahead": (m.group, m.id, m.epoch + 1, topic_id),
            "no member": (m.group, "nobody", m.epoch, topic_id),
            "no group": (t.name("g"), "nobody", 1, topic_id),
            "no group, no member": (t.name("g"), "", -1, topic_id),
            "group without members": (simple, "nobody", 1, topic_id),
            "empty group": ("", "", -1, topic_id),
        }
        if version >= 6:
            cases |= {
                "unknown id": (m.group, m.id, m.epoch, NOBODY),
                "zero id": (m.group, m.id, m.epoch, uuid.UUID(int=0)),
            }
        out[f"v{version}"] = {name: commit(version, *case) for name, case in cases.items()}
    return out


@probe("versions")
def offsets_across_a_rebalance(t: Target) -> Outcome:
    """Which partitions a member can commit with an epoch before the last rebalance (KIP-1251)."""
    topic = t.topic(4)
    topic_id = t.id_of(topic)
    one = Member(t, t.name("g"), [topic])
    two = Member(t, one.group, [topic])
    one.beat()
    two.beat()
    one.beat()

    def commits(m: Member, epoch: int) -> list[list[str]]:
        # Which partitions a member keeps may differ.
        kept = sorted(range(4), key=lambda each: (each not in one.assigned[topic], each))
        return [_commit(t, m.group, topic_id, each, epoch=epoch, member_id=m.id) for each in kept]

    out: dict[str, Any] = {"revoking": commits(one, one.epoch)}
    one.beat(owned=True)
    two.beat()
    for name, m in {"one": one, "two": two}.items():
        for back in (0, 1, 2):
            out[f"{name}, {back} epochs back"] = commits(m, m.epoch - back)
    return out
