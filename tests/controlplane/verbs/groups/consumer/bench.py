"""Runs scripts for consumer groups on the pure machine, with the lines for classic groups and these.

    topic t 4                     ->            creates a topic or adds partitions; `drop t` deletes it
    beat a topics=t               -> a: 1 t:0,1,2,3      member a joins or beats; epoch, and assignment if sent
    beat a owned                  -> a: 1       reports that it owns its last assignment
    beat a epoch=7                -> a: FENCED_MEMBER_EPOCH
    bye a                         -> a: -1      leaves; `bye a for=-2` leaves temporarily
    settle                        -> a=t:0,1 b=t:2,3     all members beat until no assignment changes
    state                         -> Stable 2/2 a=2:t:0,1 b=2:t:2,3

A topic's id is its letter, sixteen times. Members' names are also their ids.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lacuna.controlplane.shared.history import History
from lacuna.controlplane.state.groups.consumer.assignments import Assignment, write_assignment
from lacuna.controlplane.state.groups.consumer.assignments import read_assignment as read_rows
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.state import TopicState
from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
    ConsumerGroupsDescribed,
    DeleteOffsets,
    DescribeConsumerGroups,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.verbs.groups.consumer.embedded import read_assignment
from tests.controlplane.verbs.groups.conftest import (
    Bench,
    error_name,
    follow,
    parse_ms,
    partition_of,
)


def shown(assignment: Assignment) -> str:
    """Format partitions as `t:0,1+u:2`, or `-` for none."""
    rows = [
        f"{row.topic_id[:1].decode()}:{','.join(map(str, row.partitions))}"
        for row in write_assignment(assignment)
    ]
    return "+".join(rows) or "-"


def parsed(text: str) -> Assignment:
    """Parse what `shown` returns."""
    rows = [row.partition(":")[::2] for row in text.split("+") if ":" in row]
    return {
        topic.encode() * 16: frozenset(int(each) for each in indexes.split(","))
        for topic, indexes in rows
    }


def subscription(topics: list[str], owned: Assignment, version: int = 1) -> bytes:
    """Return a ConsumerProtocolSubscription of this version."""
    parts = [struct.pack(">hi", version, len(topics))]
    parts += [struct.pack(">h", len(name)) + name.encode() for name in topics]
    parts.append(struct.pack(">i", -1))
    if version >= 1:
        parts.append(struct.pack(">i", len(owned)))
        for topic_id, partitions in sorted(owned.items()):
            parts.append(struct.pack(">h1si", 1, topic_id[:1], len(partitions)))
            parts.extend(struct.pack(">i", each) for each in sorted(partitions))
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", -1))
    return b"".join(parts)


STABLE = """
    topic t 4
    beat a topics=t       -> a: 2 t:0,1,2,3
    beat b topics=t       -> b: 3 -
    beat a                -> a: 2 t:0,1
    beat a owned          -> a: 3
    beat b                -> b: 3 t:2,3
"""


@dataclass
class ConsumerBench(Bench):
    """Like Bench, with topics and with members that use the consumer protocol."""

    stable: ClassVar[Mapping[str, str]] = {"": STABLE}

    epochs: dict[str, int] = field(default_factory=dict)
    owned: dict[str, Assignment] = field(default_factory=dict)

    def check(self) -> None:
        super().check()
        for group in self.groups.consumers.values():
            fresh = type(group)(group_id=group.group_id)
            fresh.apply(group.to_step())
            assert (fresh.owners, fresh.static_members) == (group.owners, group.static_members)
            assert fresh.metadata_size == group.metadata_size
            held = [
                key
                for member in group.members.values()
                for part in (member.current.assigned, member.current.revoking)
                for key in ((topic_id, each) for topic_id, ids in part.items() for each in ids)
            ]
            assert len(held) == len(set(held)), "a partition has one owner at most"
            assert group.group_id not in self.groups.generations

    def do_topic(self, name: str, count: str) -> str:
        """Create a topic or add partitions to it."""
        topic = TopicState(name.encode() * 16, name, {}, {})
        topic.partitions = [
            Partition((topic.topic_id, index), History(0)) for index in range(int(count))
        ]
        self.state.partitions |= {each.key: each for each in topic.partitions}
        self.state.topics[topic.topic_id] = self.state.topics_by_name[name] = topic
        self.state.cluster_version += 1
        return ""

    def do_drop(self, name: str) -> str:
        del self.state.topics[self.state.topics_by_name.pop(name).topic_id]
        self.state.cluster_version += 1
        self.do_delete_topic(name)
        return ""

    # --- the consumer protocol ---------------------------------------------------------------

    def heartbeat(self, name: str, words: tuple[str, ...]) -> ConsumerGroupHeartbeat:
        options = self.options(words)
        epoch = int(options.get("epoch", self.epochs.get(name, 0)))
        command = ConsumerGroupHeartbeat(
            group_id=options.get("group", self.group_id),
            member_id=options.get("id", name),
            member_epoch=epoch,
            group_instance_id=options.get("instance", ""),
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            has_owned=epoch == 0 or "owned" in options or "owns" in options,
            client_id=name,
            client_host="/127.0.0.1",
            needs_member_id=True,
        )
        if "topics" in options or (epoch == 0 and "regex" not in options):
            command.has_topic_names = True
            command.topic_names.extend(
                each for each in options.get("topics", "").split(",") if each
            )
        if "regex" in options:
            command.topic_regex = options["regex"]
        if "assignor" in options:
            command.server_assignor = options["assignor"]
        if "owned" in options and epoch != 0:
            command.owned.extend(write_assignment(self.owned.get(name, {})))
        if "owns" in options:
            command.owned.extend(write_assignment(parsed(options["owns"])))
        return command

    def do_beat(self, name: str, *words: str) -> str:
        command = Command(consumer_group_heartbeat=self.heartbeat(name, words))
        return self.told(name, self.send(name, command))

    def do_bye(self, name: str, *words: str) -> str:
        epoch = self.options(words).get("for", "-1")
        told = self.do_beat(name, *words, f"epoch={epoch}")
        if epoch == "-1":
            self.epochs.pop(name, None)
            self.owned.pop(name, None)
        return told

    def show_consumer_group_heartbeat_answered(
        self, name: str, answered: ConsumerGroupHeartbeatAnswered
    ) -> str:
        if answered.error_code:
            assert answered.error_message
            return error_name(answered.error_code)
        assert answered.member_id
        if answered.member_epoch > 0:
            self.epochs[name] = answered.member_epoch
        if not answered.has_assignment:
            return str(answered.member_epoch)
        self.owned[name] = read_rows(answered.assignment)
        return f"{answered.member_epoch} {shown(self.owned[name])}"

    def do_settle(self, *words: str) -> str:
        """Run rounds of heartbeats, at most as many as a reconciliation can take."""
        names = [name for name, epoch in self.epochs.items() if epoch > 0]
        quiet = 0
        for _ in range(20):
            told = [self.do_beat(name, "owned") for name in names]
            # What one gives up without a word, another is told of in the next round.
            quiet = 0 if any(" " in each.partition(": ")[2] for each in told) else quiet + 1
            if quiet == 2:
                break
        group = self.groups.consumers[self.group_id]
        assert group.state in ("Stable", "Empty") or "mixed" in words, group
        return " ".join(f"{name}={shown(self.owned.get(name, {}))}" for name in names)

    def do_state(self) -> str:
        command = DescribeConsumerGroups(group_ids=[self.group_id])
        reply = self.ask(Command(describe_consumer_groups=command))
        return self.show("", reply)

    def show_consumer_groups_described(self, _: str, described: ConsumerGroupsDescribed) -> str:
        (group,) = described.groups
        if group.error_code:
            return error_name(group.error_code)
        members = [
            f"{each.client_id}={each.member_epoch}:{shown(read_rows(each.assignment))}"
            for each in sorted(group.members, key=lambda each: each.client_id)
        ]
        head = f"{group.state} {group.group_epoch}/{group.assignment_epoch}"
        return " ".join([head, *members])

    def do_delete_offsets(self, *places: str) -> str:
        command = DeleteOffsets(
            group_id=self.group_id, partitions=[partition_of(each) for each in places]
        )
        reply = self.ask(Command(delete_offsets=command))
        return self.show("", reply)

    def show_offsets_deleted(self, _: str, deleted: Outcomes) -> str:
        if deleted.error_code:
            return error_name(deleted.error_code)
        return ",".join(error_name(code) for code in deleted.error_codes)

    # --- the classic protocol ----------------------------------------------------------------

    def do_cjoin(self, name: str, *words: str) -> str:
        """Run `cjoin c topics=t [owns=t:0] [instance=i] [session=30min]` with a readable subscription."""
        options = self.options(words)
        topics = [each for each in options.get("topics", "t").split(",") if each]
        owned = parsed(options["owns"]) if "owns" in options else self.owned.get(name, {})
        version = int(options.get("version", "1"))
        metadata = subscription(topics, {} if "gives" in options else owned, version)
        command = g.JoinGroup(
            group_id=self.group_id,
            member_id=options.get("id", self.member_ids.get(name, "")),
            group_instance_id=options.get("instance", ""),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                g.GroupProtocol(name=each, metadata=b"?" if "bad" in options else metadata)
                for each in options.get("protocols", "range").split(",")
            ],
            session_timeout_ms=parse_ms(options.get("session", "10s")),
            rebalance_timeout_ms=60_000,
            requires_known_member_id="old" not in options,
            client_id=name,
            client_host="/127.0.0.1",
        )
        return self.told(name, self.send(name, Command(join_group=command)))

    def show_group_joined(self, name: str, joined: g.GroupJoined) -> str:
        told = super().show_group_joined(name, joined)
        if not joined.error_code:
            self.epochs[f"{name}*"] = -joined.generation_id  # no consumer epoch: it does not beat
        return told

    def do_cbeat(self, name: str, *words: str) -> str:
        generation = -self.epochs.get(f"{name}*", 0)
        return self.do_heartbeat(name, f"gen={generation}", *words)

    def do_csync(self, name: str, *words: str) -> str:
        """Sync, and store the assignment."""
        generation = -self.epochs.get(f"{name}*", 0)
        return self.do_sync(name, f"gen={generation}", *words)

    def show_group_synced(self, name: str, synced: g.GroupSynced) -> str:
        if synced.error_code:
            return error_name(synced.error_code)
        partitions = read_assignment(synced.assignment)
        self.owned[name] = {topic.encode() * 16: each for topic, each in partitions.items()}
        return f"synced {shown(self.owned[name])}"


def play(script: str) -> ConsumerBench:
    return follow(ConsumerBench(), script)
