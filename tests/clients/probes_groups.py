"""Probes of classic groups and their offsets (S26)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .probing import Outcome, Target, error_of, probe
from .wire import Connection, Fields

PROTOCOL = {"name": "range", "metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"}


class Member:
    """A member of a classic group, with its own connection, because a join may wait."""

    def __init__(self, t: Target, group: str, instance: str | None = None) -> None:
        self.group, self.instance, self.id, self.generation = group, instance, "", -1
        t.coordinator(group, 0)
        self.connection: Connection = t.connect()

    def join_fields(self, **over: Any) -> Fields:
        fields: Fields = {
            "group_id": self.group,
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [PROTOCOL],
        }
        return fields | over

    def join(self, **over: Any) -> Fields:
        """Send JoinGroup v9, and keep the member id and generation that it returns."""
        answer = self.connection.call("join_group", 9, **self.join_fields(**over))
        return self.joined(answer)

    def joined(self, answer: Fields) -> Fields:
        if answer["error_code"] in (0, 79):
            self.id = answer["member_id"]
        if answer["error_code"] == 0:
            self.generation = answer["generation_id"]
        return answer

    def join_error(self, **over: Any) -> str:
        return error_of(self.join(**over))

    def identity(self) -> Fields:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }

    def sync_fields(self, **over: Any) -> Fields:
        return self.identity() | {"protocol_type": "consumer", "protocol_name": "range"} | over

    def sync(self, assignments: Sequence[Fields] = (), **over: Any) -> Fields:
        fields = self.sync_fields(assignments=assignments) | over
        return self.connection.call("sync_group", 5, **fields)

    def sync_error(self, **over: Any) -> str:
        return error_of(self.sync(**over))

    def join_alone(self, **over: Any) -> None:
        """Join and sync, so that the group is stable with this one member."""
        if self.instance is None:
            assert self.join_error(**over) == "MEMBER_ID_REQUIRED"
        assert self.join_error(**over) == "NONE"
        answer = self.sync([{"member_id": self.id, "assignment": b"mine"}])
        assert answer["error_code"] == 0, answer
        assert answer["assignment"] == b"mine", answer

    def heartbeat(self, **over: Any) -> str:
        return error_of(self.connection.call("heartbeat", 4, **(self.identity() | over)))

    def disturbance(self) -> str:
        """Send heartbeats until one gets an error; returns the error."""
        while (error := self.heartbeat()) == "NONE":
            pass
        return error

    def leave(self, **over: Any) -> list[str]:
        member = {"member_id": self.id, "group_instance_id": self.instance} | over
        answer = self.connection.call("leave_group", 5, group_id=self.group, members=[member])
        return [error_of(answer)] + [error_of(row) for row in answer["members"]]


def commit_offset(
    t: Target,
    group: str,
    topic: str,
    offset: int,
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    partition: int = 0,
    metadata: str | None = None,
    version: int = 8,
) -> str:
    """Send OffsetCommit for one partition; returns its error."""
    row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    answer = t.settled(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[{"name": topic, "partitions": [row]}],
    )
    return error_of(answer["topics"][0]["partitions"][0])


def fetch_offset(t: Target, group: str, topic: str, stable: bool, partition: int = 0) -> list[Any]:
    """Send OffsetFetch for one partition; returns the partition's error, offset and metadata, and the group's error."""
    topics = [{"name": topic, "partition_indexes": [partition]}]
    answer = t.call(
        "offset_fetch", 8, groups=[{"group_id": group, "topics": topics}], require_stable=stable
    )
    row = answer["groups"][0]
    part = row["topics"][0]["partitions"][0]
    return [
        error_of(part),
        part["committed_offset"],
        part["metadata"],
        error_of(row),
    ]


@probe("groups")
def join_arguments(t: Target) -> Outcome:
    def error(version: int = 9, **over: Any) -> str:
        member = Member(t, t.name("g"))
        fields = member.join_fields(**over)
        if version < 5:
            del fields["group_instance_id"]
        answer = member.connection.call("join_group", version, **fields)
        return error_of(answer)

    return {
        "empty member id, v9": error(),
        "empty member id, v4": error(4),
        "empty member id, v3": error(3),
        "unknown member id": error(member_id="stranger"),
        "session timeout 1 ms": error(session_timeout_ms=1),
        "session timeout 31 min": error(session_timeout_ms=1_860_000),
        "empty group id": error(group_id=""),
        "no protocols": error(protocols=[]),
        "empty protocol type": error(protocol_type=""),
        "static, empty member id": error(group_instance_id="one"),
        "static, unknown member id": error(group_instance_id="one", member_id="stranger"),
    }


@probe("groups")
def one_member(t: Target) -> Outcome:
    m = Member(t, t.name("g"))
    first = m.join()
    second = m.join()
    out: dict[str, Any] = {
        "joins": [error_of(first), error_of(second)],
        "generation": second["generation_id"],
        "leader is me": second["leader"] == m.id,
        "protocol": [second["protocol_type"], second["protocol_name"]],
        "members": len(second["members"]),
        "heartbeat before sync": m.heartbeat(),
        "sync, wrong generation": m.sync_error(generation_id=7),
        "sync, unknown member": m.sync_error(member_id="stranger"),
        "sync, wrong protocol name": m.sync_error(protocol_name="other"),
        "sync, wrong protocol type": m.sync_error(protocol_type="other"),
        "sync": m.sync_error(assignments=[{"member_id": m.id, "assignment": b"x"}]),
        "heartbeat": m.heartbeat(),
        "heartbeat, wrong generation": m.heartbeat(generation_id=9),
        "heartbeat, unknown member": m.heartbeat(member_id="stranger"),
        "heartbeat, unknown group": m.heartbeat(group_id=t.name("g")),
        "heartbeat, empty group": m.heartbeat(group_id=""),
        "sync, unknown group": m.sync_error(group_id=t.name("g")),
        "rejoin, same metadata": m.join_error(),
        "generation then": m.generation,
    }
    m.sync([{"member_id": m.id, "assignment": b"x"}])
    other = m.join_fields(protocol_type="connect", member_id="")
    out["join with another protocol type"] = error_of(t.call("join_group", 9, **other))
    other = m.join_fields(protocols=[PROTOCOL | {"name": "sticky"}], member_id="")
    out["join with no common protocol"] = error_of(t.call("join_group", 9, **other))
    out["leave, unknown"] = m.leave(member_id="stranger")
    out["leave"] = m.leave()
    out["leave again"] = m.leave()
    out["heartbeat after leaving"] = m.heartbeat()
    return out


@probe("groups")
def two_members(t: Target) -> Outcome:
    one = Member(t, t.name("g"))
    one.join_alone()
    two = Member(t, one.group)
    required = two.join_error()
    two.connection.send("join_group", 9, two.join_fields())
    out: dict[str, Any] = {
        "first join of two": required,
        "heartbeat while it joins": one.disturbance(),
        "commit while it joins": commit_offset(
            t, one.group, t.topic(), 1, member=one.id, generation=one.generation
        ),
        "sync while it joins": one.sync_error(),
    }
    again = one.join()
    answer = two.joined(two.connection.receive("join_group", 9))
    out["both joined"] = [again["generation_id"], answer["generation_id"]]
    out["leader"] = [again["leader"] == one.id, answer["leader"] == one.id]
    out["members seen"] = [len(again["members"]), len(answer["members"])]
    two.connection.send("sync_group", 5, two.sync_fields())
    rows = [{"member_id": m.id, "assignment": name} for m, name in ((one, b"1"), (two, b"2"))]
    mine = one.sync(rows)["assignment"]
    out["assignments"] = [
        mine.decode(),
        two.connection.receive("sync_group", 5)["assignment"].decode(),
    ]
    out["commit with the old generation"] = commit_offset(
        t, one.group, t.topic(), 1, member=one.id, generation=one.generation - 1
    )
    out["leaver"] = two.leave()
    out["heartbeat after a leave"] = one.disturbance()
    return out


@probe("groups")
def static_members(t: Target) -> Outcome:
    one = Member(t, t.name("g"), "instance-1")
    one.join_alone()
    old_id = one.id
    two = Member(t, one.group, "instance-1")
    answer = two.join()
    return {
        "rejoin of the instance": error_of(answer),
        "same generation": answer["generation_id"] == one.generation,
        "new member id": answer["member_id"] != old_id,
        "skip_assignment": answer.get("skip_assignment"),
        "sync gets its old assignment": two.sync()["assignment"].decode(),
        "old one's heartbeat": one.heartbeat(),
        "old one's join": one.join_error(),
        "old one's sync": one.sync_error(),
        "old one's commit": commit_offset(
            t,
            one.group,
            t.topic(),
            1,
            member=old_id,
            generation=one.generation,
            instance="instance-1",
        ),
        "unknown instance": one.heartbeat(group_instance_id="other"),
        "leave by instance": one.leave(member_id=""),
        "leave by instance again": one.leave(member_id=""),
    }


@probe("groups")
def offset_commit(t: Target) -> Outcome:
    topic, m = t.topic(), Member(t, t.name("g"))
    simple = t.name("g")
    out: dict[str, Any] = {
        "no group, generation -1": commit_offset(t, simple, topic, 3, metadata="hello"),
        "read": fetch_offset(t, simple, topic, False),
        "no group, generation 1": commit_offset(t, simple, topic, 3, generation=1, member="m"),
        "no group, member without generation": commit_offset(t, simple, topic, 3, member="m"),
        "unknown topic": commit_offset(t, simple, "no-such-topic", 3),
        "unknown partition": commit_offset(t, simple, topic, 3, partition=9),
        "offset -1": commit_offset(t, simple, topic, -1),
        "metadata too large": commit_offset(t, simple, topic, 3, metadata="x" * 5000),
        "empty group id": commit_offset(t, "", topic, 3),
    }
    m.join_alone()
    rest = {"member": m.id, "generation": m.generation}
    out |= {
        "member": commit_offset(t, m.group, topic, 4, **rest),  # type: ignore[arg-type]
        "generation ahead": commit_offset(t, m.group, topic, 4, member=m.id, generation=9),
        "unknown member": commit_offset(t, m.group, topic, 4, member="x", generation=1),
        "no member while the group lives": commit_offset(t, m.group, topic, 4),
        "member without generation": commit_offset(t, m.group, topic, 4, member=m.id),
        "read of the group": fetch_offset(t, m.group, topic, True),
        "never committed partition": fetch_offset(t, m.group, topic, True, partition=5),
        "read of an unknown group": fetch_offset(t, t.name("g"), topic, True),
        "leave": m.leave(),
        "no member in the empty group": commit_offset(t, m.group, topic, 5),
    }
    return out


@probe("groups")
def describe_list_delete(t: Target) -> Outcome:
    m, topic = Member(t, t.name("g")), t.topic()
    m.join_alone()

    def describe(name: str, version: int) -> list[Any]:
        answer = t.call("describe_groups", version, groups=[name])
        row = answer["groups"][0]
        return [
            error_of(row),
            row["group_state"],
            row["protocol_type"],
            row["protocol_data"],
            len(row["members"]),
        ]

    def listed(name: str, **over: Any) -> list[Any]:
        return [
            [row["protocol_type"], row["group_state"], row["group_type"]]
            for row in t.of_all("list_groups", 5, "groups", **over)
            if row["group_id"] == name
        ]

    def delete(name: str) -> str:
        return error_of(t.call("delete_groups", 2, groups_names=[name])["results"][0])

    unknown, simple = t.name("g"), t.name("g")
    commit_offset(t, simple, topic, 1)
    out: dict[str, Any] = {
        "stable": describe(m.group, 5),
        "unknown, v5": describe(unknown, 5),
        "unknown, v6": describe(unknown, 6),
        "offsets only": describe(simple, 6),
        "listed": listed(m.group),
        "listed as Empty": listed(m.group, states_filter=["Empty"]),
        "listed as stable, lower case": listed(m.group, states_filter=["stable"]),
        "listed as consumer type": listed(m.group, types_filter=["consumer"]),
        "listed offsets only": listed(simple),
        "delete while not empty": delete(m.group),
        "delete unknown": delete(unknown),
        "leave": m.leave(),
        "empty": describe(m.group, 5),
        "delete": delete(m.group),
        "deleted": describe(m.group, 6),
        "delete offsets only": delete(simple),
        "its offsets": fetch_offset(t, simple, topic, True),
    }
    return out


@probe("groups")
def emptied_of_offsets(t: Target) -> Outcome:
    """A group whose last offset was deleted by an operator: it still exists."""
    group, topic = t.name("g"), t.topic()
    t.coordinator(group, 0)
    commit_offset(t, group, topic, 1)
    rows = [{"name": topic, "partitions": [{"partition_index": 0}]}]

    def take() -> str:
        return error_of(t.settled("offset_delete", 0, group_id=group, topics=rows))

    def state() -> list[Any]:
        answer = t.call("describe_groups", 6, groups=[group])["groups"][0]
        listed = t.of_all("list_groups", 5, "groups")
        return [
            error_of(answer),
            answer["group_state"],
            [row["group_state"] for row in listed if row["group_id"] == group],
        ]

    out: dict[str, Any] = {"taken": take(), "then": state(), "taken again": take()}
    deleted = t.call("delete_groups", 2, groups_names=[group])["results"][0]
    return out | {"deleted": error_of(deleted), "at the end": state()}


@probe("groups")
def session_expires(t: Target) -> Outcome:
    m = Member(t, t.name("g"))
    m.join(session_timeout_ms=t.soon(6000))
    m.join(session_timeout_ms=t.soon(6000))
    m.sync([{"member_id": m.id, "assignment": b"x"}])
    t.time_out()
    state = "Stable"
    while state == "Stable":
        answer = t.call("describe_groups", 5, groups=[m.group])
        state = answer["groups"][0]["group_state"]
    return [state, m.heartbeat(), m.join_error()]


@probe("groups")
def find_coordinator(t: Target) -> Outcome:
    def find(key_type: int, keys: list[str], version: int = 4) -> list[Any]:
        answer = t.settled("find_coordinator", version, key_type=key_type, coordinator_keys=keys)
        return [[row["key"], error_of(row), row["node_id"] >= 0] for row in answer["coordinators"]]

    one = t.settled("find_coordinator", 3, key="g", key_type=0)
    bad = t.settled("find_coordinator", 3, key="g", key_type=9)
    return {
        "several": find(0, ["a", "b"]),
        "transactions": find(1, ["a"]),
        "empty key": find(0, [""]),
        "v3": [error_of(one), one["port"] > 0],
        "v3 unknown type": error_of(bad),
        "v4 unknown type": find(9, ["a"]),
        "no keys": find(0, []),
    }
