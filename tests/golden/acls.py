"""Tests authorization: users with different ACLs call every API, with the same results on Kafka and here.

Each set of ACLs includes a user, topics, groups and transactional ids, whose names begin with the set's name. Some sets
allow `own` resources, `other` resources exist too, and `none` is missing. The stored outcome says whether there was an
answer, and its names and errors.

acls_requests.json contains the requests: API, version and fields. In their strings, {} is the set's name, id:NAME is
the id of a topic, and bytes:NAME is one of _BYTES. In `steps`, a member of a streams group joins with a source topic,
and with a changelog topic that does not exist. Kafka requires its id to look like a UUID, and so for the share group
member, which fetches and leaves. With an authorizer, Kafka fails to answer its ShareFetch for unknown topic ids.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
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
#: The fields that identify the subject of an answer, in all APIs.
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
#: Fields about subjects other than a set's user, or that depend on what else is running.
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
_DENIED: Final = 29  # TOPIC_AUTHORIZATION_FAILED
_OF_SHARE_PARTITIONS: Final = ("share_fetch", "share_acknowledge")
_UNKNOWN: Final = uuid.UUID("5f0c2d3e-8a41-4b6f-9d10-7a5b3c1e2f90")
_REQUESTS: Final = json.loads(Path(__file__).with_name("acls_requests.json").read_text())
_BYTES: Final = {
    "none": b"",
    "records": batch((Rec(),)),
    "transactional records": batch(
        (Rec(),), attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0
    ),
}


def connect(bootstrap: str, user: str) -> Connection:
    """Connect as this user over SASL/PLAIN."""
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


class _Scene:
    """The topics, groups and transactional ids of one set."""

    def __init__(self, admin: Connection, name: str) -> None:
        self._admin = admin
        self.name = name
        self._ids: dict[str, uuid.UUID] = {}
        self._connection: Connection | None = None

    def prepare(self) -> None:
        """Create them and add the set's ACLs."""
        for api, version, fields in _REQUESTS["preparation"]:
            self._until_done(api, version, self._filled(fields))
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
        self._until_done("create_acls", 3, {"creations": acls})

    def _until_done(self, api: str, version: int, fields: Fields) -> None:
        """Retry until the request succeeds, since the coordinator or the broker's topic metadata may not exist yet."""
        answer = None
        for _ in range(300):
            answer = self._admin.call(api, version, **fields)
            if not re.search(r"'error_code': [^0]", str(answer)):
                return
            time.sleep(0.1)
        raise AssertionError(answer)

    def look(self) -> None:
        """Look up the ids of the topics."""
        answer = self._admin.call("metadata", 12, topics=None, allow_auto_topic_creation=False)
        self._ids = {
            each["name"]: each["topic_id"]
            for each in answer["topics"]
            if each["name"].startswith(self._n(""))
        }

    def take(self, bootstrap: str, user: str, api: str, version: int, fields: Fields) -> Any:
        """Send one request. Return the outcome to store.

        The steps share a connection until one of them gets no answer, since authenticating takes longer than a step.
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
            # Kafka loads share partitions later, so only its denials are the same each time.
            denied = [
                each for each in found["responses"] if f"'error_code': {_DENIED}" in str(each)
            ]
            return {"error_code": found["error_code"], "denied": denied}
        return found

    def leave(self) -> None:
        """Close the connection that the steps share."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _n(self, name: str) -> str:
        return f"{self.name}.{name}"

    def _filled(self, value: Any) -> Any:
        """Return a request's value with this set's names, its topic ids and bytes filled in."""
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, dict):
            return {name: self._filled(each) for name, each in value.items()}
        if not isinstance(value, str):
            return value
        kind, _, name = value.partition(":")
        if kind == "id":
            return _UNKNOWN if name == "none" else self._ids[self._n(name)]
        return _BYTES[name] if kind == "bytes" else value.replace("{}", self.name)

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

    def steps(self) -> Iterator[tuple[str, tuple[str, int, Fields]]]:
        """Return the requests in order, each with a name."""
        numbers: Counter[str] = Counter()
        for api, version, fields in _REQUESTS["steps"]:
            step = f"{api} v{version}"
            numbers[step] += 1
            yield f"{step} {numbers[step]}", (api, version, self._filled(fields))
