"""Probes of consumer groups (KIP-848, S26), with single heartbeats sent by hand."""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

from .probes_groups import Member as ClassicMember
from .probing import Outcome, Target, error_of, probe
from .wire import Fields


class Member:
    """A member that speaks the consumer protocol; it sends heartbeats only on request."""

    def __init__(self, t: Target, group: str, topics: list[str] | None = None, **more: Any) -> None:
        self.t, self.group, self.epoch = t, group, 0
        self.id = str(uuid.uuid4())
        self.topics, self.more = topics, more
        self.assigned: dict[str, list[int]] = {}
        t.coordinator(group, 0)

    def fields(self, **over: Any) -> Fields:
        fields: Fields = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "topic_partitions": None,
        }
        if self.epoch == 0:
            fields |= {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": self.topics,
                "topic_partitions": [],
            }
            fields |= self.more
        return fields | over

    def send(self, version: int = 1, **over: Any) -> Fields:
        """Send a heartbeat; returns the whole answer."""
        return self.t.settled("consumer_group_heartbeat", version, **self.fields(**over))

    def beat(self, *, owned: bool = False, **over: Any) -> Any:
        """Send a heartbeat; returns the error, or [epoch, assignment] with None if the answer has no assignment."""
        if owned:
            over["topic_partitions"] = self.owned()
        answer = self.send(**over)
        if answer["error_code"]:
            return error_of(answer)
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is None:
            return [self.epoch, None]
        names = {topic_id: name for name, topic_id in self.t.topic_ids.items()}
        self.assigned = {
            names.get(row["topic_id"], "?"): sorted(row["partitions"])
            for row in answer["assignment"]["topic_partitions"]
        }
        return [self.epoch, self.count]

    @property
    def count(self) -> int:
        return sum(len(each) for each in self.assigned.values())

    def owned(self) -> list[Fields]:
        return [
            {"topic_id": self.t.topic_ids[name], "partitions": each}
            for name, each in self.assigned.items()
        ]

    def error(self, **over: Any) -> str:
        return error_of(self.send(**over))

    def settle(self, *others: Member) -> list[int]:
        """Let all members send heartbeats until no assignment changes, and return how many partitions each has.

        If a member gets an error, return the answers of the members instead.
        """
        members = [self, *others]
        quiet = 0
        while quiet < 3:
            told = [each.beat(owned=True) for each in members]
            if any(isinstance(each, str) for each in told):
                return told  # unchanged, because a member got an error
            quiet = quiet + 1 if all(each[1] is None for each in told) else 0
            time.sleep(0.01)
        return sorted(each.count for each in members)


def describe(t: Target, group: str, version: int = 1) -> Fields:
    """Return the answer to ConsumerGroupDescribe for one group."""
    answer = t.settled(
        "consumer_group_describe",
        version,
        group_ids=[group],
    )
    row: Fields = answer["groups"][0]
    return row


def state_of(t: Target, group: str) -> list[Any]:
    row = describe(t, group)
    return [
        error_of(row),
        row["group_state"],
        row["group_epoch"],
        row["assignment_epoch"],
        row["assignor_name"],
        len(row["members"]),
    ]


@probe("consumer_groups")
def arguments(t: Target) -> Outcome:
    topic = t.topic()

    def answer(version: int = 1, **over: Any) -> list[Any]:
        row = Member(t, t.name("g"), [topic]).send(version, **over)
        return [error_of(row), row["error_message"], row["member_epoch"]]

    known = {"member_epoch": 3}
    return {
        "empty group id": answer(group_id=""),
        "empty member id": answer(member_id=""),
        "empty instance id": answer(instance_id=""),
        "empty rack id": answer(rack_id=""),
        "no rebalance timeout": answer(rebalance_timeout_ms=-1),
        "no partitions": answer(topic_partitions=None),
        "owns something": answer(
            topic_partitions=[{"topic_id": t.topic_ids[topic], "partitions": [0]}]
        ),
        "no subscription": answer(subscribed_topic_names=None),
        "epoch -3": answer(member_epoch=-3),
        "epoch -2, dynamic": answer(member_epoch=-2),
        "assignor": answer(server_assignor="nonsense"),
        "empty assignor": answer(server_assignor=""),
        "bad regex": answer(subscribed_topic_regex="(")[0],
        "look-ahead": answer(subscribed_topic_regex="(?=a)b")[0],
        "back-reference": answer(subscribed_topic_regex=r"(a)\1")[0],
        "unknown group, epoch 3": answer(**known)[0],
        "unknown group, epoch -1": answer(member_epoch=-1)[0],
        "empty member id, epoch 3": answer(member_id="", **known)[0],
        "v0 with an id": answer(0)[0],
    }


@probe("consumer_groups")
def one_member(t: Target) -> Outcome:
    topic = t.topic(3)
    m = Member(t, t.name("g"), [topic])
    first = m.send()
    out: dict[str, Any] = {
        "interval": first["heartbeat_interval_ms"],
        "my id": first["member_id"] == m.id,
        "join": m.beat(member_epoch=0),
        "joined": [m.epoch, m.assigned == {topic: [0, 1, 2]}],
        "join again": m.beat(
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
        "state": state_of(t, m.group),
        "beat": m.beat(),
        "state after": state_of(t, m.group),
        "full beat": m.beat(
            owned=True, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic]
        ),
        "greater epoch": m.error(member_epoch=m.epoch + 1),
        "old epoch, owns nothing": m.error(member_epoch=m.epoch - 1, topic_partitions=[]),
        "old epoch, says nothing": m.error(member_epoch=m.epoch - 1),
        "unknown member": m.error(member_id="stranger"),
        "unknown instance": m.error(instance_id="nobody"),
        "bad assignor later": m.error(server_assignor="nonsense"),
        "range from now on": m.beat(server_assignor="range"),
        "state with range": state_of(t, m.group),
        "no topic": m.beat(subscribed_topic_names=[], owned=True),
        "given up": m.beat(topic_partitions=[]),
        "state without topics": state_of(t, m.group),
        "topic again": m.beat(subscribed_topic_names=[topic], topic_partitions=[]),
        "unknown topic": m.beat(subscribed_topic_names=["no-such-topic"], owned=True),
    }
    out["leave"] = m.beat(member_epoch=-1)
    m.epoch = 3
    out["beat after leaving"] = m.error()
    out["leave again"] = m.error(member_epoch=-1)
    out["state then"] = state_of(t, m.group)
    return out


@probe("consumer_groups")
def server_chosen_id(t: Target) -> Outcome:
    m = Member(t, t.name("g"), [t.topic()])
    answer = m.send(0, member_id="")
    return [error_of(answer), bool(answer["member_id"]), answer["member_epoch"]]


@probe("consumer_groups")
def revocation_comes_first(t: Target) -> Outcome:
    topic = t.topic(4)
    one = Member(t, t.name("g"), [topic])
    two = Member(t, one.group, [topic])
    out: dict[str, Any] = {"one joins": one.beat(), "two joins": two.beat()}
    out["state"] = state_of(t, one.group)
    before = one.owned()
    out["one is told to revoke"] = one.beat()
    out["two waits"] = two.beat()
    out["one still owns"] = one.beat(topic_partitions=before)
    out["two waits on"] = two.beat()
    out["one says nothing"] = one.beat()
    out["one has revoked"] = one.beat(owned=True)
    out["two gets them"] = two.beat()
    out["two has its own"] = sorted(one.assigned[topic] + two.assigned[topic]) == [0, 1, 2, 3]
    out["state then"] = state_of(t, one.group)
    out["two leaves"] = two.beat(member_epoch=-1)
    out["state after"] = state_of(t, one.group)
    out["one gets all"] = one.beat()
    return out


@probe("consumer_groups")
def many_members(t: Target) -> Outcome:
    def sizes(assignor: str, counts: list[int], wanted: list[list[int]]) -> list[int]:
        topics = [t.topic(count) for count in counts]
        group = t.name("g")
        members = [
            Member(t, group, [topics[index] for index in each], server_assignor=assignor)
            for each in wanted
        ]
        for member in members:
            member.beat()
        return members[0].settle(*members[1:])

    same = [[0, 1]] * 3
    return {
        "uniform, 2 topics": sizes("uniform", [4, 4], same),
        "range, 2 topics": sizes("range", [4, 4], same),
        "uniform, more members": sizes("uniform", [2], [[0]] * 4),
        "range, more members": sizes("range", [2], [[0]] * 4),
        "uniform, different topics": sizes("uniform", [4, 2], [[0, 1], [0], [1]]),
        "range, different topics": sizes("range", [4, 2], [[0, 1], [0], [1]]),
    }


@probe("consumer_groups")
def static_members(t: Target) -> Outcome:
    topic = t.topic(2)
    one = Member(t, t.name("g"), [topic], instance_id="one")
    out: dict[str, Any] = {"join": one.beat()}
    again = Member(t, one.group, [topic], instance_id="one")
    out["another while it lives"] = again.error()
    out["beat with its instance"] = one.beat(instance_id="one")
    out["beat of another id"] = one.error(instance_id="one", member_id=again.id)
    out["leaves for a while"] = one.send(member_epoch=-2, instance_id="one")["member_epoch"]
    out["state"] = state_of(t, one.group)[1:]
    out["beat while away"] = one.error(instance_id="one")
    out["back"] = again.beat()
    out["state then"] = state_of(t, one.group)[1:]
    out["old one"] = one.error(instance_id="one")
    out["old one, no instance"] = one.error()
    out["leaves for good"] = again.send(member_epoch=-1, instance_id="one")["member_epoch"]
    out["state after"] = state_of(t, one.group)[1:]
    return out


@probe("consumer_groups")
def regular_expression(t: Target) -> Outcome:
    stem = t.name("x")
    topics = [f"{stem}-{each}" for each in ("a1", "a2", "b")]
    rows = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
        }
        for name in topics
    ]
    for row in t.call("create_topics", 7, topics=rows)["topics"]:
        t.topic_ids[row["name"]] = row["topic_id"]
    m = Member(t, t.name("g"), None, subscribed_topic_regex=f"{stem}-a.")
    m.beat()
    out: dict[str, Any] = {"matched": _until(m, ["a1", "a2"])}
    m.beat(subscribed_topic_regex=f"{stem}", owned=True)
    out["a part of a name"] = _until(m, [])
    m.beat(subscribed_topic_regex="", subscribed_topic_names=[topics[2]], owned=True)
    out["a name instead"] = _until(m, ["-b"])
    m.beat(subscribed_topic_regex=f"{stem}-a1", owned=True)
    out["both"] = _until(m, ["-b", "a1"])
    out["bad later"] = m.error(subscribed_topic_regex="[")
    row = describe(t, m.group)["members"][0]
    out["described"] = [row["subscribed_topic_regex"] == f"{stem}-a1", row["member_type"]]
    return out


def _until(m: Member, expected: list[str]) -> list[str]:
    """Send heartbeats until the assigned topics are the expected ones (Kafka resolves expressions in the background).

    Returns the last two characters of the assigned topics' names.
    """
    deadline = time.monotonic() + 60
    while (got := sorted(name[-2:] for name in m.assigned)) != expected:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
        m.beat(owned=True)
    return got


@probe("consumer_groups")
def topics_change(t: Target) -> Outcome:
    topic, other = t.topic(1), t.topic(1)
    m = Member(t, t.name("g"), [topic, other])
    out: dict[str, Any] = {"join": m.beat()}
    t.call(
        "create_partitions",
        3,
        topics=[{"name": topic, "count": 3, "assignments": None}],
        timeout_ms=5000,
    )
    out["grown"] = _until_told(m)
    t.call("delete_topics", 6, topics=[{"name": other, "topic_id": None}], timeout_ms=5000)
    out["deleted"] = _until_told(m)
    return out


def _until_told(m: Member) -> Any:
    deadline = time.monotonic() + 60
    told = m.beat(owned=True)
    while told[1] is None and time.monotonic() < deadline:
        time.sleep(0.02)
        told = m.beat(owned=True)
    return told


def commit(t: Target, m: Member, topic: str, version: int = 9, **over: Any) -> str:
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    fields: Fields = {
        "group_id": m.group,
        "generation_id_or_member_epoch": m.epoch,
        "member_id": m.id,
        "topics": [{"name": topic, "partitions": [row]}],
    }
    answer = t.settled("offset_commit", version, **(fields | over))
    return error_of(answer["topics"][0]["partitions"][0])


def fetch(t: Target, m: Member, topic: str, **over: Any) -> list[Any]:
    topics = [{"name": topic, "partition_indexes": [0]}]
    group: Fields = {
        "group_id": m.group,
        "member_id": m.id,
        "member_epoch": m.epoch,
        "topics": topics,
    }
    answer = t.settled("offset_fetch", 9, groups=[group | over], require_stable=True)
    row = answer["groups"][0]
    offsets = [p["committed_offset"] for each in row["topics"] for p in each["partitions"]]
    return [error_of(row), offsets]


@probe("consumer_groups")
def offsets(t: Target) -> Outcome:
    topic = t.topic()
    m = Member(t, t.name("g"), [topic])
    m.beat()
    epoch = "generation_id_or_member_epoch"
    out: dict[str, Any] = {
        "commit": commit(t, m, topic),
        "commit v8": commit(t, m, topic, 8),
        "old epoch": commit(t, m, topic, **{epoch: 0}),
        "greater epoch": commit(t, m, topic, **{epoch: 9}),
        "unknown member": commit(t, m, topic, member_id="stranger"),
        "nobody": commit(t, m, topic, member_id="", **{epoch: -1}),
        "fetch": fetch(t, m, topic),
        "fetch, old epoch": fetch(t, m, topic, member_epoch=0),
        "fetch, unknown member": fetch(t, m, topic, member_id="stranger"),
        "fetch, no member": fetch(t, m, topic, member_id=None, member_epoch=-1),
        "fetch, no member but an epoch": fetch(t, m, topic, member_id=None),
    }
    producer = t.transactional()
    fields: Fields = {
        **producer.fields,
        "group_id": m.group,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 7, "committed_metadata": None}
                ],
            }
        ],
    }

    def txn(**over: Any) -> str:
        wanted = {"generation_id_or_member_epoch": m.epoch, "member_id": m.id} | over
        answer = t.settled("txn_offset_commit", 5, **(fields | wanted))
        return error_of(answer["topics"][0]["partitions"][0])

    out["txn"] = txn()
    out["txn, old epoch"] = txn(generation_id_or_member_epoch=0)
    out["txn, unknown member"] = txn(member_id="stranger")
    out["txn, nobody"] = txn(generation_id_or_member_epoch=-1, member_id="")
    out["fetch, pending"] = _fetch_partition_error(t, m, topic)
    out["leave"] = m.beat(member_epoch=-1)
    m.epoch = -1
    out["nobody in the empty group"] = commit(t, m, topic, member_id="")
    return out


def _fetch_partition_error(t: Target, m: Member, topic: str) -> str:
    topics = [{"name": topic, "partition_indexes": [0]}]
    group = {"group_id": m.group, "topics": topics, "member_id": m.id, "member_epoch": m.epoch}
    answer = t.call("offset_fetch", 9, groups=[group], require_stable=True)
    return error_of(answer["groups"][0]["topics"][0]["partitions"][0])


def delete_offset(t: Target, group: str, topic: str, partition: int = 0) -> list[str]:
    """Send OffsetDelete for one partition; returns the errors of the answer and of the partition."""
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    answer = t.settled("offset_delete", 0, group_id=group, topics=topics)
    return [error_of(answer)] + [
        error_of(each) for row in answer["topics"] for each in row["partitions"]
    ]


@probe("consumer_groups")
def offset_delete(t: Target) -> Outcome:
    topic, other = t.topic(), t.topic()
    m = Member(t, t.name("g"), [topic])
    m.beat()
    commit(t, m, topic)
    commit(t, m, other)
    out: dict[str, Any] = {
        "subscribed": delete_offset(t, m.group, topic),
        "not subscribed": delete_offset(t, m.group, other),
        "nothing there": delete_offset(t, m.group, other),
        "unknown partition": delete_offset(t, m.group, other, 7),
        "unknown topic": delete_offset(t, m.group, "no-such-topic"),
        "unknown group": delete_offset(t, t.name("g"), topic),
        "empty group id": delete_offset(t, "", topic),
        "left": fetch(t, m, other),
    }
    m.beat(member_epoch=-1)
    out["empty"] = delete_offset(t, m.group, topic)
    metadata = _subscription([topic])
    classic = ClassicMember(t, t.name("g"))
    _join_classic(classic, metadata)
    out["classic, subscribed"] = delete_offset(t, classic.group, topic)
    out["classic, not subscribed"] = delete_offset(t, classic.group, other)
    connect = ClassicMember(t, t.name("g"))
    for _ in range(2):
        connect.join(protocol_type="connect")
    connect.sync([], protocol_type="connect")
    out["not of consumers"] = delete_offset(t, connect.group, topic)
    return out


def _subscription(topics: list[str], owned: dict[str, list[int]] | None = None) -> bytes:
    """A ConsumerProtocolSubscription v1 as bytes."""
    parts = [struct.pack(">hi", 1, len(topics))]
    parts += [struct.pack(">h", len(name)) + name.encode() for name in topics]
    parts.append(struct.pack(">ii", -1, len(owned or {})))
    for name, partitions in (owned or {}).items():
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join(parts)


def _assignment(data: bytes) -> list[int]:
    """The partitions in a ConsumerProtocolAssignment that has at most one topic."""
    _, count = struct.unpack_from(">hi", data)
    if not count:
        return []
    (size,) = struct.unpack_from(">h", data, 6)
    (partitions,) = struct.unpack_from(">i", data, 8 + size)
    return sorted(struct.unpack_from(f">{partitions}i", data, 12 + size))


def _join_classic(m: ClassicMember, metadata: bytes) -> list[Any]:
    """Join, and join again if a member id is required. Return the parts of the answer that are the same in every run.

    These are: the error, the generation, whether this member leads, whether there is no leader, the protocol, and the
    number of members listed.
    """
    protocols = [{"name": "range", "metadata": metadata}]
    answer = m.join(protocols=protocols)
    if error_of(answer) == "MEMBER_ID_REQUIRED":
        answer = m.join(protocols=protocols)
    return [
        error_of(answer),
        answer["generation_id"],
        answer["leader"] == m.id,
        answer["leader"] == "",
        answer["protocol_name"],
        len(answer["members"]),
    ]


def _write_assignment(topic: str, partitions: list[int]) -> bytes:
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 1, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


@probe("consumer_groups")
def upgrade_and_back(t: Target) -> Outcome:
    topic = t.topic(4)
    old = ClassicMember(t, t.name("g"))
    metadata = _subscription([topic])
    out: dict[str, Any] = {"classic joins": _join_classic(old, metadata)}
    every = {"member_id": old.id, "assignment": _write_assignment(topic, [0, 1, 2, 3])}
    old.sync([every])
    new = Member(t, old.group, [topic])
    out["consumer joins"] = new.beat()
    out["state"] = state_of(t, old.group)
    out["types"] = sorted(each["member_type"] for each in describe(t, old.group)["members"])
    out["classic's old beat"] = old.heartbeat()
    out["classic's sync"] = old.sync_error()
    out["classic joins again, gives up"] = _join_classic(old, metadata)
    out["classic beats"] = old.heartbeat()
    synced = old.sync()
    out["classic syncs"] = [
        error_of(synced),
        len(_assignment(synced["assignment"])),
    ]
    out["consumer gets its own"] = new.beat()
    out["consumer settles"] = new.settle()
    out["classic beats on"] = old.heartbeat()
    out["state then"] = state_of(t, old.group)
    out["wrong generation"] = old.heartbeat(generation_id=77)
    out["classic, wrong protocol"] = old.join_error(
        protocols=[{"name": "other", "metadata": metadata}]
    )
    out["consumer leaves by LeaveGroup"] = old.leave(member_id=new.id)
    out["consumer leaves"] = new.beat(member_epoch=-1)
    row = t.settled("describe_groups", 5, groups=[old.group])["groups"][0]
    out["a classic group"] = [row["group_state"], row["protocol_type"], len(row["members"])]
    out["its beat"] = old.heartbeat()
    out["it joins"] = _join_classic(old, metadata)
    out["it leaves"] = old.leave()
    out["described as consumers"] = state_of(t, old.group)[0]
    out["consumer joins the empty group"] = Member(t, old.group, [topic]).beat()
    out["state at last"] = state_of(t, old.group)
    return out


@probe("consumer_groups")
def classic_member_leaves(t: Target) -> Outcome:
    topic = t.topic(2)
    new = Member(t, t.name("g"), [topic])
    new.beat()
    old = ClassicMember(t, new.group)
    out: dict[str, Any] = {"joins": _join_classic(old, _subscription([topic]))}
    out["sync"] = len(_assignment(old.sync()["assignment"]))
    out["new"] = [new.beat(), new.beat(owned=True)]
    out["beat tells it to join"] = old.heartbeat()
    out["joins again"] = _join_classic(old, _subscription([topic]))
    out["sync again"] = len(_assignment(old.sync()["assignment"]))
    out["stranger leaves"] = old.leave(member_id="stranger")
    out["leaves"] = old.leave()
    out["state"] = state_of(t, new.group)
    out["new gets all"] = new.settle()
    new.beat(member_epoch=-1)
    out["classic in the empty group"] = _join_classic(
        ClassicMember(t, new.group), _subscription([topic])
    )
    return out


@probe("consumer_groups")
def operators(t: Target) -> Outcome:
    topic = t.topic()
    m = Member(t, t.name("g"), [topic])
    m.beat()
    commit(t, m, topic)

    def classic(version: int) -> list[Any]:
        answer = t.settled("describe_groups", version, groups=[m.group])
        row = answer["groups"][0]
        message = (row.get("error_message") or "").replace(m.group, "G")
        return [error_of(row), message, row["group_state"], row["protocol_type"]]

    def listed(version: int = 5, **over: Any) -> list[Any]:
        rows = t.of_all("list_groups", version, "groups", **over)
        return [
            [row["protocol_type"], row.get("group_state"), row.get("group_type")]
            for row in rows
            if row["group_id"] == m.group
        ]

    def deleted() -> str:
        answer = t.settled("delete_groups", 2, groups_names=[m.group])
        return error_of(answer["results"][0])

    simple = ClassicMember(t, t.name("g"))
    simple.join_alone()
    row = describe(t, simple.group)
    missing = describe(t, "no-such-group")
    return {
        "describe as classic, v5": classic(5),
        "describe as classic, v6": classic(6),
        "listed": listed(),
        "listed v4": listed(4),
        "of type consumer": listed(types_filter=["Consumer"]),
        "of type classic": listed(types_filter=["classic"]),
        "stable": listed(states_filter=["stable"]),
        "empty": listed(states_filter=["empty"]),
        "classic described": [
            error_of(row),
            (row["error_message"] or "").replace(simple.group, "G"),
            row["group_state"],
            row["assignor_name"],
            row["group_epoch"],
        ],
        "missing described": [
            error_of(missing),
            missing["error_message"],
            missing["group_state"],
        ],
        "empty id described": error_of(describe(t, "")),
        "delete": deleted(),
        "leave": m.beat(member_epoch=-1),
        "listed then": listed(),
        "delete then": deleted(),
        "delete again": deleted(),
        "listed at last": listed(),
        "member": _described_member(t),
    }


def _described_member(t: Target) -> list[Any]:
    topic = t.topic(2)
    m = Member(t, t.name("g"), [topic], rack_id="r", instance_id="i")
    m.beat()
    row = describe(t, m.group)["members"][0]
    zero = describe(t, m.group, 0)["members"][0]
    return [
        row["instance_id"],
        row["rack_id"],
        row["member_epoch"],
        row["client_host"],
        row["subscribed_topic_names"] == [topic],
        row["subscribed_topic_regex"],
        [each["partitions"] for each in row["assignment"]["topic_partitions"]],
        [each["partitions"] for each in row["target_assignment"]["topic_partitions"]],
        row["member_type"],
        "member_type" in zero,
    ]
