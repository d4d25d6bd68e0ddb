"""Tests authorization: users with different ACLs call every API, with the same results on Kafka and here.

Each set of ACLs has a user, topics, groups and transactional ids, whose names begin with the set's name. Some sets
allow `own` resources, `other` resources exist too, and `none` is missing. The stored outcome says whether there was an
answer, with its names and errors.
"""

from __future__ import annotations

import itertools
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.clients.batch import TRANSACTIONAL, Rec, batch
from tests.clients.wire import ClosedError, Connection, Fields

ADMIN: Final = "admin"
PASSWORD: Final = "secret-of-all"
TOPIC, GROUP, CLUSTER, TXN = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
DENY, ALLOW = 2, 3
#: In DescribeConfigs and AlterConfigs.
BROKER, GROUP_CONFIGS = 4, 32

#: resource type, name, pattern type, operation, permission; {} is the set's name
Acl = tuple[int, str, int, int, int]
_EVERYTHING: Final[tuple[Acl, ...]] = (
    *((kind, "*", LITERAL, ALL, ALLOW) for kind in (TOPIC, GROUP, TXN)),
    (CLUSTER, "kafka-cluster", LITERAL, ALL, ALLOW),
)
#: Each kind of group has its own.
_GROUPS: Final = ("group", "streams", "share")
SETS: Final[Mapping[str, tuple[Acl, ...]]] = {
    "nothing": (),
    "literal": (
        *((TOPIC, f"{{}}.own-{each}", LITERAL, ALL, ALLOW) for each in ("1", "2", "new", "made")),
        *((GROUP, f"{{}}.own-{each}", LITERAL, ALL, ALLOW) for each in _GROUPS),
        (TXN, "{}.own-txn", LITERAL, ALL, ALLOW),
    ),
    "prefixed": tuple((kind, "{}.own-", PREFIXED, ALL, ALLOW) for kind in (TOPIC, GROUP, TXN)),
    "wildcard": _EVERYTHING,
    "denied": (
        *_EVERYTHING,
        (TOPIC, "{}.other-", PREFIXED, ALL, DENY),
        *((GROUP, f"{{}}.other-{each}", LITERAL, ALL, DENY) for each in _GROUPS),
        (TXN, "{}.other-txn", LITERAL, ALL, DENY),
        (CLUSTER, "kafka-cluster", LITERAL, ALTER, DENY),
        (CLUSTER, "kafka-cluster", LITERAL, CREATE, DENY),
        (CLUSTER, "kafka-cluster", LITERAL, DELETE, DENY),
        (CLUSTER, "kafka-cluster", LITERAL, CLUSTER_ACTION, DENY),
    ),
    "describer": (
        *((kind, "{}.own-", PREFIXED, DESCRIBE, ALLOW) for kind in (TOPIC, GROUP, TXN)),
        (CLUSTER, "kafka-cluster", LITERAL, DESCRIBE, ALLOW),
        (TOPIC, "{}.own-", PREFIXED, DESCRIBE_CONFIGS, ALLOW),
    ),
    "consumer": (
        (TOPIC, "{}.own-", PREFIXED, READ, ALLOW),
        *((GROUP, f"{{}}.own-{each}", LITERAL, READ, ALLOW) for each in _GROUPS),
    ),
    "producer": (
        (TOPIC, "{}.own-", PREFIXED, WRITE, ALLOW),
        (TOPIC, "{}.own-", PREFIXED, CREATE, ALLOW),
        (TXN, "{}.own-txn", LITERAL, WRITE, ALLOW),
        (CLUSTER, "kafka-cluster", LITERAL, IDEMPOTENT_WRITE, ALLOW),
    ),
    "remover": (
        (TOPIC, "{}.own-", PREFIXED, DELETE, ALLOW),
        (GROUP, "{}.own-", PREFIXED, DELETE, ALLOW),
    ),
    "operator": tuple(
        (CLUSTER, "kafka-cluster", LITERAL, each, ALLOW)
        for each in (CREATE, DELETE, ALTER, ALTER_CONFIGS, DESCRIBE_CONFIGS)
    ),
    "withheld": (
        (TOPIC, "{}.own-", PREFIXED, ALL, ALLOW),
        (TOPIC, "{}.own-2", LITERAL, READ, DENY),
        (TOPIC, "*", LITERAL, WRITE, DENY),
        *((GROUP, f"{{}}.own-{each}", LITERAL, ALL, ALLOW) for each in _GROUPS),
    ),
    "super": (),
}
USERS: Final = (ADMIN, *(each for each in SETS if each != "super"))
#: Names and kinds of what is answered for, in all APIs.
_NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "group_id",
        "transactional_id",
        "key",
        "resource_name",
        "resource_type",
        "partition",
        "partition_index",
        "index",
        "user",
        "feature",
    }
)
_CODES: Final = ("error_code", "authorized_operations", "status_code")
#: What answers say about others than the user of a set, or what depends on what else runs.
_LEFT_OUT: Final = frozenset(
    {
        "brokers",
        "nodes",
        "configs",
        "acls",
        "credential_infos",
        "entries",
        "current_voters",
        "observers",
        "aborted_transactions",
        "assignment",
        "target_assignment",
        "topology_description",
    }
)
_AUTHENTICATED: Final = 0
#: Topics of which the last does not exist.
_THREE: Final = ("own-1", "other-1", "none")
_DENIED: Final = 29  # TOPIC_AUTHORIZATION_FAILED
_OF_SHARE_PARTITIONS: Final = ("share_fetch", "share_acknowledge")
#: Kafka wants a UUID's form.
_MEMBER: Final = "m" + "A" * 21
_UNKNOWN: Final = uuid.UUID("5f0c2d3e-8a41-4b6f-9d10-7a5b3c1e2f90")


def connect(bootstrap: str, user: str) -> Connection:
    """Connect as that user over SASL/PLAIN."""
    connection = Connection(bootstrap)
    connection.call("sasl_handshake", 1, mechanism="PLAIN")
    token = f"\0{user}\0{PASSWORD}".encode()
    answer = connection.call("sasl_authenticate", 2, auth_bytes=token)
    assert answer["error_code"] == _AUTHENTICATED, answer
    return connection


def as_text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return JSON with a line for each step."""
    sets = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f" {json.dumps(step)}: {json.dumps(kept)}" for step, kept in steps.items())
        + "\n}"
        for name, steps in found.items()
    ]
    return "{\n" + ",\n".join(sets) + "\n}\n"


def outcomes(bootstrap: str) -> dict[str, dict[str, Any]]:
    """Return the answers to every step, by set and step."""
    found = {}
    with connect(bootstrap, ADMIN) as admin:
        for name in SETS:
            _Scene(admin, name).prepare()
        for name in SETS:
            scene = _Scene(admin, name)
            scene.look()
            user = ADMIN if name == "super" else name
            found[name] = {
                step: scene.take(bootstrap, user, *asked) for step, asked in scene.steps()
            }
            scene.leave()
    return found


#: A request: API, version and fields.
_Asked = tuple[str, int, Fields]


def _asked(api: str, version: int, **fields: Any) -> _Asked:
    return api, version, fields


class _Scene:
    """The topics, groups and transactional ids of a set."""

    def __init__(self, admin: Connection, name: str) -> None:
        self._admin = admin
        self.name = name
        self._ids: dict[str, uuid.UUID] = {}
        self._connection: Connection | None = None

    def prepare(self) -> None:
        """Create them, and add the set's ACLs."""
        self._create("own-1", "own-2", "other-1", "own-gone", "other-gone")
        acls = [
            {
                "resource_type": kind,
                "resource_name": name.format(self.name),
                "resource_pattern_type": pattern,
                "principal": f"User:{self.name}",
                "host": "*",
                "operation": operation,
                "permission_type": permission,
            }
            for kind, name, pattern, operation, permission in SETS[self.name]
        ]
        answer = self._admin.call("create_acls", 3, creations=acls)
        assert not any(each["error_code"] for each in answer["results"]), answer
        for kind in (0, 1):
            self._until_done("find_coordinator", 4, key_type=kind, coordinator_keys=["x"])
        for owner in ("own", "other"):
            self._until_done(
                "init_producer_id",
                4,
                transactional_id=self._n(f"{owner}-txn"),
                transaction_timeout_ms=60_000,
            )
            self._until_done("offset_commit", 8, **self._commit(owner, "own-1", "other-1"))
            begin = {"partition_index": 0, "start_offset": 0}
            self._until_done(
                "alter_share_group_offsets",
                0,
                group_id=self._n(f"{owner}-share"),
                topics=self._topics("own-1", "other-1", field="topic_name", partitions=[begin]),
            )

    def _until_done(self, api: str, version: int, **fields: Any) -> None:
        """Retry until it succeeds, since the coordinator or the broker's topic metadata may not exist yet."""
        answer = None
        for _ in range(300):
            answer = self._admin.call(api, version, **fields)
            if not re.search(r"'error_code': [^0]", str(answer)):
                return
            time.sleep(0.1)
        raise AssertionError(answer)

    def look(self) -> None:
        """Look up the ids of the topics."""
        names = [
            {"name": self._n(each)}
            for each in ("own-1", "own-2", "other-1", "own-gone", "other-gone")
        ]
        answer = self._admin.call("metadata", 12, topics=names, allow_auto_topic_creation=False)
        self._ids = {each["name"]: each["topic_id"] for each in answer["topics"]}

    def take(self, bootstrap: str, user: str, api: str, version: int, fields: Fields) -> Any:
        """Send one request. Return the outcome to store.

        The steps share a connection until one of them gets no answer, since to authenticate takes longer than a step.
        """
        if self._connection is None:
            self._connection = connect(bootstrap, user)
            self._connection.socket.settimeout(10)
        try:
            found = self._outline(self._connection.call(api, version, **fields))
        except (ClosedError, TimeoutError) as error:
            self.leave()
            return "closed" if isinstance(error, ClosedError) else "silent"
        if api in _OF_SHARE_PARTITIONS:
            # Kafka loads share partitions later, so that only its denials are the same each time.
            denied = [
                each for each in found["responses"] if f"'error_code': {_DENIED}" in str(each)
            ]
            return {"error_code": found["error_code"], "denied": denied}
        return found

    def leave(self) -> None:
        """Close the connection of the steps."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _n(self, name: str) -> str:
        return f"{self.name}.{name}"

    def _id(self, name: str) -> uuid.UUID:
        return self._ids[self._n(name)]

    def _create(self, *names: str) -> None:
        topics = [
            {
                "name": self._n(each),
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for each in names
        ]
        answer = self._admin.call("create_topics", 7, topics=topics, timeout_ms=30_000)
        assert not any(each["error_code"] for each in answer["topics"]), answer

    def _commit(self, owner: str, *names: str) -> Fields:
        topics = [
            {
                "name": self._n(each),
                "partitions": [
                    {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
                ],
            }
            for each in names
        ]
        return {
            "group_id": self._n(f"{owner}-group"),
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": topics,
        }

    def _outline(self, value: Any) -> Any:
        """Return names and errors, with lists sorted by their text, or None for parts that concern other sets."""
        if isinstance(value, list):
            kept = [found for each in value if (found := self._outline(each)) not in (None, {})]
            return sorted(kept, key=str)
        return self._fields(value) if isinstance(value, dict) else None

    def _fields(self, value: Fields) -> Fields | None:
        if any(self._is_of_others(value[name]) for name in _NAMES & value.keys()):
            return None
        found: Fields = {}
        for name, each in value.items():
            if name in _NAMES:
                found[name] = each.removeprefix(self._n("")) if isinstance(each, str) else each
            elif name == "topic_id":
                found[name] = self._label(each)
            elif name.endswith(_CODES):
                found[name] = each
            elif name not in _LEFT_OUT and (part := self._outline(each)) not in (None, {}):
                found[name] = part
        return found

    def _is_of_others(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name.startswith("__") or ("." in name and not name.startswith(self._n("")))

    def _label(self, topic_id: uuid.UUID | None) -> str:
        if topic_id is None or not topic_id.int:
            return "none"
        names = {value: name.removeprefix(f"{self.name}.") for name, value in self._ids.items()}
        return names.get(topic_id, "new")

    def steps(self) -> Iterator[tuple[str, _Asked]]:
        """Return the requests in their order, each with a name."""
        numbers: dict[str, int] = {}
        parts = (
            self._reads_of_metadata(),
            self._reads_of_records(),
            self._reads_of_groups(),
            self._reads_of_settings(),
            self._produces(),
            self._transactions(),
            self._memberships(),
            self._streams_groups(),
            self._share_groups(),
            self._new_topics(),
            self._new_configs(),
            self._new_acls(),
            self._changes_of_the_cluster(),
            self._deletions(),
        )
        for api, version, fields in itertools.chain.from_iterable(parts):
            step = f"{api} v{version}"
            numbers[step] = numbers.get(step, 0) + 1
            yield f"{step} {numbers[step]}", (api, version, fields)

    def _topics(self, *names: str, field: str = "name", **partitions: Any) -> list[Fields]:
        return [{field: self._n(each), **partitions} for each in names]

    def _three(self, kind: str) -> list[str]:
        """Return the names of three groups or transactional ids, the last of which does not exist."""
        return [self._n(f"{each}-{kind}") for each in ("own", "other", "none")]

    def _three_ids(self) -> list[uuid.UUID]:
        """Return the ids of the topics _THREE."""
        return [self._id("own-1"), self._id("other-1"), _UNKNOWN]

    def _reads_of_metadata(self) -> Iterator[_Asked]:
        yield _asked("metadata", 1, topics=None)
        yield _asked("metadata", 12, topics=None, include_topic_authorized_operations=True)
        yield _asked("metadata", 0, topics=self._topics("other-1"))
        yield _asked(
            "metadata",
            9,
            topics=self._topics(*_THREE),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        yield _asked(
            "metadata",
            12,
            topics=[{"topic_id": each, "name": None} for each in self._three_ids()],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        yield _asked(
            "describe_topic_partitions",
            0,
            topics=[],
            response_partition_limit=2000,
            cursor={"topic_name": self._n(""), "partition_index": 0},
        )
        yield _asked(
            "describe_topic_partitions",
            0,
            topics=self._topics(*_THREE),
            response_partition_limit=2000,
            cursor=None,
        )
        yield _asked("describe_cluster", 0, include_cluster_authorized_operations=True)

    def _reads_of_records(self) -> Iterator[_Asked]:
        yield _asked(
            "list_offsets",
            7,
            replica_id=-1,
            isolation_level=0,
            topics=self._topics(
                *_THREE,
                partitions=[{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}],
            ),
        )
        yield _asked(
            "offset_for_leader_epoch",
            4,
            replica_id=-1,
            topics=self._topics(
                *_THREE,
                field="topic",
                partitions=[{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
            ),
        )
        wanted = [
            {
                "partition": 0,
                "fetch_offset": 0,
                "partition_max_bytes": 1000,
                "current_leader_epoch": -1,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
            }
        ]
        fetch = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        yield _asked(
            "fetch",
            12,
            **fetch,
            replica_id=-1,
            topics=self._topics(
                "own-1", "own-2", "other-1", "none", field="topic", partitions=wanted
            ),
        )
        yield _asked(
            "fetch",
            12,
            **fetch,
            replica_id=1,
            topics=self._topics("own-1", field="topic", partitions=wanted),
        )
        yield _asked(
            "fetch",
            13,
            **fetch,
            replica_id=-1,
            topics=[{"topic_id": each, "partitions": wanted} for each in self._three_ids()],
        )

    def _reads_of_groups(self) -> Iterator[_Asked]:
        groups, txns = self._three("group"), self._three("txn")
        yield _asked(
            "offset_fetch",
            7,
            group_id=groups[0],
            topics=self._topics(*_THREE, partition_indexes=[0]),
        )
        yield _asked("offset_fetch", 7, group_id=groups[1], topics=None)
        yield _asked(
            "offset_fetch",
            8,
            groups=[
                {"group_id": each, "topics": self._topics(*_THREE, partition_indexes=[0])}
                for each in groups
            ],
        )
        yield _asked(
            "offset_fetch", 8, groups=[{"group_id": each, "topics": None} for each in groups]
        )
        yield _asked(
            "offset_fetch",
            1,
            group_id=groups[1],
            topics=self._topics(*_THREE, partition_indexes=[0]),
        )
        for kind, keys in ((0, groups), (1, txns)):
            yield _asked("find_coordinator", 4, key_type=kind, coordinator_keys=keys)
            yield _asked("find_coordinator", 2, key_type=kind, key=keys[0])
            yield _asked("find_coordinator", 2, key_type=kind, key=keys[1])
        yield _asked("describe_groups", 5, groups=groups, include_authorized_operations=True)
        yield _asked(
            "consumer_group_describe", 0, group_ids=groups, include_authorized_operations=True
        )
        yield _asked("list_groups", 4, states_filter=[])
        yield _asked("describe_producers", 0, topics=self._topics(*_THREE, partition_indexes=[0]))
        yield _asked("describe_transactions", 0, transactional_ids=txns)
        yield _asked("list_transactions", 0, state_filters=[], producer_id_filters=[])

    def _reads_of_settings(self) -> Iterator[_Asked]:
        resources = [
            (TOPIC, self._n("own-1")),
            (TOPIC, self._n("other-1")),
            (TOPIC, self._n("none")),
            (BROKER, "1"),
            (GROUP_CONFIGS, self._n("own-group")),
            (GROUP_CONFIGS, self._n("other-group")),
        ]
        yield _asked(
            "describe_configs",
            4,
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configuration_keys": ["retention.ms"],
                }
                for kind, name in resources
            ],
        )
        yield _asked(
            "describe_acls",
            3,
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        yield _asked(
            "describe_log_dirs",
            4,
            topics=self._topics("own-1", "other-1", field="topic", partitions=[0]),
        )
        yield _asked("list_partition_reassignments", 0, timeout_ms=1000, topics=None)
        yield _asked("describe_client_quotas", 1, components=[], strict=False)
        yield _asked("describe_user_scram_credentials", 0, users=[{"name": "x"}])
        yield _asked(
            "describe_quorum",
            1,
            topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
        )
        yield _asked("list_config_resources", 1, resource_types=[2])

    def _produces(self) -> Iterator[_Asked]:
        plain = [{"index": 0, "records": batch((Rec(),))}]
        yield _asked(
            "produce",
            9,
            transactional_id=None,
            acks=1,
            timeout_ms=1000,
            topic_data=self._topics("own-1", "own-2", "other-1", "none", partition_data=plain),
        )
        yield _asked(
            "produce",
            13,
            transactional_id=None,
            acks=1,
            timeout_ms=1000,
            topic_data=[{"topic_id": each, "partition_data": plain} for each in self._three_ids()],
        )
        yield _asked(
            "produce",
            9,
            transactional_id=None,
            acks=0,
            timeout_ms=1000,
            topic_data=self._topics("none", partition_data=plain),
        )
        for txn in self._three("txn")[:2]:
            records = batch(
                (Rec(),), attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0
            )
            yield _asked(
                "produce",
                9,
                transactional_id=txn,
                acks=1,
                timeout_ms=1000,
                topic_data=self._topics(
                    "own-1", "other-1", partition_data=[{"index": 0, "records": records}]
                ),
            )

    def _transactions(self) -> Iterator[_Asked]:
        new = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        yield _asked("init_producer_id", 4, transactional_id=None, **new)
        for txn in self._three("txn")[:2]:
            yield _asked("init_producer_id", 4, transactional_id=txn, **new)
            stale = {"producer_id": 999_999, "producer_epoch": 0}
            for topics in (("own-1",), _THREE):
                yield _asked(
                    "add_partitions_to_txn",
                    3,
                    v3_and_below_transactional_id=txn,
                    v3_and_below_producer_id=999_999,
                    v3_and_below_producer_epoch=0,
                    v3_and_below_topics=self._topics(*topics, partitions=[0]),
                )
            yield _asked(
                "add_partitions_to_txn",
                4,
                transactions=[
                    {
                        "transactional_id": txn,
                        **stale,
                        "verify_only": False,
                        "topics": self._topics("own-1", partitions=[0]),
                    }
                ],
            )
            for group in self._three("group")[:2]:
                yield _asked("add_offsets_to_txn", 3, transactional_id=txn, **stale, group_id=group)
                offsets = [
                    {
                        "partition_index": 0,
                        "committed_offset": 0,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ]
                yield _asked(
                    "txn_offset_commit",
                    3,
                    transactional_id=txn,
                    group_id=group,
                    **stale,
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=self._topics(*_THREE, partitions=offsets),
                )
            yield _asked("end_txn", 3, transactional_id=txn, **stale, committed=False)
        yield _asked(
            "write_txn_markers",
            1,
            markers=[
                {
                    "producer_id": 999_999,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "coordinator_epoch": 0,
                    "topics": self._topics("none", partition_indexes=[0]),
                }
            ],
        )

    def _memberships(self) -> Iterator[_Asked]:
        for group in ("own", "other"):
            yield _asked("offset_commit", 8, **self._commit(group, *_THREE))
        for group in self._three("group")[:2]:
            joined = {
                "group_id": group,
                "generation_id": 1,
                "member_id": "m",
                "group_instance_id": None,
            }
            yield _asked("heartbeat", 4, **joined)
            yield _asked(
                "sync_group",
                5,
                **joined,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[],
            )
            yield _asked(
                "sync_group", 5, **joined, protocol_type=None, protocol_name="range", assignments=[]
            )
            yield _asked(
                "leave_group",
                4,
                group_id=group,
                members=[{"member_id": "m", "group_instance_id": None}],
            )
            yield _asked(
                "join_group",
                7,
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=1000,
                member_id="m",
                group_instance_id=None,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
            for named in (["own-1"], ["own-1", "other-1"]):
                yield _asked(
                    "consumer_group_heartbeat",
                    0,
                    group_id=group,
                    member_id="m",
                    member_epoch=7,
                    instance_id=None,
                    rack_id=None,
                    rebalance_timeout_ms=1000,
                    subscribed_topic_names=[self._n(each) for each in named],
                    server_assignor=None,
                    topic_partitions=[],
                )
            yield _asked(
                "offset_delete",
                0,
                group_id=group,
                topics=self._topics(*_THREE, partitions=[{"partition_index": 0}]),
            )
        yield _asked("delete_groups", 2, groups_names=self._three("group"))

    def _streams_groups(self) -> Iterator[_Asked]:
        """A member joins with a source topic, and with a changelog topic that does not exist."""
        own, other, _ = groups = self._three("streams")
        for group, source, changelog in (
            (own, "other-1", "own-changelog"),
            (own, "own-1", "other-changelog"),
            (own, "own-1", "own-changelog"),
            (other, "own-1", "own-2-changelog"),
        ):
            subtopology = {
                "subtopology_id": "0",
                "source_topics": [self._n(source)],
                "state_changelog_topics": self._topics(
                    changelog, partitions=0, replication_factor=0, topic_configs=[]
                ),
            }
            yield _asked(
                "streams_group_heartbeat",
                1,
                group_id=group,
                member_id=_MEMBER,
                member_epoch=0,
                rebalance_timeout_ms=1000,
                topology={"epoch": 0, "subtopologies": [subtopology]},
                process_id="p",
                client_tags=[],
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                **dict.fromkeys(("instance_id", "rack_id", "user_endpoint")),
                **dict.fromkeys(("task_offsets", "task_end_offsets")),
            )
        for group in (own, other):
            yield _asked(
                "streams_group_topology_description_update",
                0,
                group_id=group,
                member_id=_MEMBER,
                topology_description={},
            )
        yield _asked(
            "streams_group_describe",
            1,
            group_ids=groups,
            include_authorized_operations=True,
            include_topology_description=True,
        )

    def _share_groups(self) -> Iterator[_Asked]:
        """A member fetches and leaves. With an authorizer, Kafka fails to answer for unknown ids of topics."""
        groups = self._three("share")
        for group in groups[:2]:
            yield self._share_beat(group, 0, "own-1", "other-1")
            yield self._share_beat(group, 0, "own-1")
            session = {"group_id": group, "member_id": _MEMBER}
            batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
            wanted = {"partition_index": 0}
            yield _asked(
                "share_fetch",
                2,
                **session,
                share_session_epoch=0,
                max_wait_ms=0,
                max_records=1,
                max_bytes=1000,
                topics=[
                    {"topic_id": each, "partitions": [wanted]} for each in self._three_ids()[:2]
                ],
            )
            acknowledged = wanted | {"acknowledgement_batches": batches}
            yield _asked(
                "share_acknowledge",
                2,
                **session,
                share_session_epoch=1,
                topics=[
                    {"topic_id": each, "partitions": [acknowledged]}
                    for each in self._three_ids()[:2]
                ],
            )
            yield self._share_beat(group, -1)
            begin = wanted | {"start_offset": 0}
            topics = self._topics(*_THREE, field="topic_name", partitions=[begin])
            yield _asked("alter_share_group_offsets", 0, group_id=group, topics=topics)
            topics = self._topics(*_THREE, field="topic_name")
            yield _asked("delete_share_group_offsets", 0, group_id=group, topics=topics)
        yield _asked(
            "share_group_describe", 1, group_ids=groups, include_authorized_operations=True
        )
        for asked in (self._topics(*_THREE, field="topic_name", partitions=[0]), None):
            of_groups = [{"group_id": each, "topics": asked} for each in groups]
            yield _asked("describe_share_group_offsets", 1, groups=of_groups)

    def _share_beat(self, group: str, epoch: int, *topics: str) -> _Asked:
        names = [self._n(each) for each in topics] or None
        return _asked(
            "share_group_heartbeat",
            1,
            group_id=group,
            member_id=_MEMBER,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=names,
        )

    def _new_topics(self) -> Iterator[_Asked]:
        creation: Fields = {
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        yield _asked(
            "create_topics",
            7,
            topics=self._topics("own-new", "own-1", "other-new", **creation),
            timeout_ms=30_000,
            validate_only=False,
        )
        yield _asked(
            "create_topics",
            4,
            topics=self._topics("own-new", "other-new", **creation),
            timeout_ms=30_000,
            validate_only=True,
        )
        yield _asked(
            "metadata",
            9,
            topics=self._topics("own-made", "other-made"),
            allow_auto_topic_creation=True,
        )
        yield _asked(
            "create_partitions",
            3,
            topics=self._topics(*_THREE, count=2, assignments=None),
            timeout_ms=30_000,
            validate_only=False,
        )
        yield _asked(
            "delete_records",
            2,
            topics=self._topics(*_THREE, partitions=[{"partition_index": 0, "offset": 0}]),
            timeout_ms=30_000,
        )

    def _new_configs(self) -> Iterator[_Asked]:
        configs = [
            (TOPIC, self._n("own-1")),
            (TOPIC, self._n("other-1")),
            (TOPIC, self._n("none")),
            (GROUP_CONFIGS, self._n("own-group")),
            (GROUP_CONFIGS, self._n("other-group")),
        ]
        yield _asked(
            "incremental_alter_configs",
            1,
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {
                            "name": "retention.ms"
                            if kind == TOPIC
                            else "consumer.session.timeout.ms",
                            "config_operation": 0,
                            "value": "50000",
                        }
                    ],
                }
                for kind, name in configs
            ],
            validate_only=True,
        )
        yield _asked(
            "alter_configs",
            2,
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": "retention.ms", "value": "50000"}],
                }
                for kind, name in configs[:3]
            ],
            validate_only=True,
        )
        yield _asked(
            "incremental_alter_configs",
            1,
            resources=[
                {
                    "resource_type": BROKER,
                    "resource_name": "1",
                    "configs": [{"name": "x", "config_operation": 1, "value": None}],
                }
            ],
            validate_only=True,
        )

    def _new_acls(self) -> Iterator[_Asked]:
        acl = {
            "resource_type": TOPIC,
            "resource_name": self._n("x"),
            "resource_pattern_type": LITERAL,
            "principal": "User:x",
            "host": "*",
            "operation": READ,
            "permission_type": ALLOW,
        }
        wrong = [
            {**acl, "resource_name": ""},
            {**acl, "resource_type": CLUSTER},
            {**acl, "operation": 1},
            {**acl, "permission_type": 1},
            {**acl, "resource_pattern_type": 2},
            {**acl, "resource_type": 1},
        ]
        yield _asked("create_acls", 3, creations=[acl])
        yield _asked("create_acls", 3, creations=[acl, *wrong[:2]])
        for each in wrong[2:]:
            yield _asked("create_acls", 3, creations=[each])
        wanted = {
            "resource_type_filter": TOPIC,
            "resource_name_filter": self._n("x"),
            "pattern_type_filter": 2,
            "principal_filter": "User:x",
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        yield _asked(
            "delete_acls", 3, filters=[wanted, {**wanted, "resource_name_filter": self._n("y")}]
        )

    def _changes_of_the_cluster(self) -> Iterator[_Asked]:
        yield _asked(
            "alter_replica_log_dirs",
            2,
            dirs=[{"path": "/nowhere", "topics": self._topics("own-1", partitions=[0])}],
        )
        yield _asked(
            "elect_leaders",
            2,
            election_type=0,
            topic_partitions=self._topics("own-1", "none", field="topic", partitions=[0]),
            timeout_ms=1000,
        )
        yield _asked(
            "alter_partition_reassignments",
            0,
            timeout_ms=1000,
            topics=self._topics(
                "own-1", "none", partitions=[{"partition_index": 0, "replicas": None}]
            ),
        )
        yield _asked(
            "alter_client_quotas",
            1,
            entries=[
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": True}],
                }
            ],
            validate_only=True,
        )
        yield _asked(
            "alter_user_scram_credentials",
            0,
            deletions=[{"name": "x", "mechanism": 1}],
            upsertions=[],
        )
        yield _asked("update_features", 1, timeout_ms=1000, feature_updates=[], validate_only=True)
        yield _asked("unregister_broker", 0, broker_id=77)

    def _deletions(self) -> Iterator[_Asked]:
        gone = ("own-gone", "other-gone", "none")
        yield _asked(
            "delete_topics",
            5,
            topic_names=[self._n(each) for each in ("none", "other-gone")],
            timeout_ms=30_000,
        )
        yield _asked(
            "delete_topics",
            6,
            topics=[
                {"name": None, "topic_id": each}
                for each in (self._id("own-gone"), self._id("other-1"), _UNKNOWN)
            ],
            timeout_ms=30_000,
        )
        yield _asked(
            "delete_topics",
            6,
            topics=[{"name": self._n(each), "topic_id": None} for each in gone],
            timeout_ms=30_000,
        )
