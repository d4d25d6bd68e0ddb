"""Tests random histories of a group: members join, sync, beat, leave and vanish, time passes, and processes restart.

In every history (S26):
- a parked request is answered at most once, and is never left behind once time has passed;
- every answer in one generation names the same leader, and only that leader sees the members;
- within one process, the generation never goes back, and each new one is higher;
- each member's assignment comes from that generation's leader and is meant for this member;
- the durable state equals a replay of the journal, at every prefix (checked by the bench).
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from tests.controlplane.verbs.groups.conftest import Bench

CLIENTS = ["a", "b", "c", "d"]
CLIENT = st.sampled_from(CLIENTS)
PROTOCOLS = st.sampled_from(["range", "range,sticky", "sticky,range", "range:x"])


def who(member_id: str) -> str:
    """Return the client that has this member id. A static member's id changes."""
    return member_id.partition("-")[0]


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.generation_of: dict[str, int] = {}
        self.last_generation = 0
        self.leader = ""
        self.bench.show = self.observe  # type: ignore[method-assign]

    def observe(self, name: str, reply: Reply) -> str:
        if reply.HasField("group_joined"):
            self.observe_join(name, reply.group_joined)
        if reply.HasField("group_synced") and not reply.group_synced.error_code:
            assert who(reply.group_synced.assignment.decode()) in ("", name)
        return ""

    def observe_join(self, name: str, joined: g.GroupJoined) -> None:
        if joined.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            if joined.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
            ):
                self.bench.member_ids.pop(name, None)
            return
        self.bench.member_ids[name] = joined.member_id
        if joined.error_code:
            return
        self.generation_of[name] = joined.generation_id
        self.bench.generation_id = joined.generation_id
        assert joined.generation_id >= self.last_generation
        if joined.generation_id > self.last_generation:
            self.leader = who(joined.leader)
        assert who(joined.leader) == self.leader
        self.last_generation = joined.generation_id
        if joined.members:
            assert joined.leader == joined.member_id
            members = [member.member_id for member in joined.members]
            assert len(members) == len(set(members))
            assert joined.member_id in members

    @rule(names=st.sets(CLIENT, min_size=1), who_syncs=st.sampled_from(["all", "followers", ""]))
    def gather(self, names: set[str], who_syncs: str) -> None:
        """Let several members join, so that most histories have a group worth disturbing."""
        for name in sorted(names) * 3:
            if name not in self.bench.waiting.values():
                self.bench.run(f"join {name}")
        group = self.bench.groups.live.groups.get("g")
        leader = who(group.leader) if group else ""
        for name in sorted(names - {leader}) if who_syncs else []:
            self.sync(name)
        if who_syncs == "all" and leader:
            self.sync(leader)

    @rule(name=CLIENT, protocols=PROTOCOLS, version=st.sampled_from(["old", "new", "v9"]))
    def join(self, name: str, protocols: str, version: str) -> None:
        self.bench.run(f"join {name} protocols={protocols} {version}")

    @rule(name=st.sampled_from(["c", "d"]), is_fresh=st.booleans())
    def join_static(self, name: str, is_fresh: bool) -> None:
        fresh = "fresh" if is_fresh else ""
        self.bench.run(f"join {name} instance={name} v9 {fresh}")

    @rule(name=CLIENT)
    def sync(self, name: str) -> None:
        """Assign every member its own id, so that a wrong assignment is noticed."""
        members = [
            g.MemberAssignment(member_id=member_id, assignment=member_id.encode())
            for member_id in self.bench.member_ids.values()
        ]
        command = g.SyncGroup(
            group_id="g",
            generation_id=self.generation_of.get(name, 0),
            member_id=self.bench.member_ids.get(name, ""),
            assignments=members,
        )
        self.bench.told(name, self.bench.send(name, Command(sync_group=command)))

    @rule(name=CLIENT)
    def heartbeat(self, name: str) -> None:
        self.bench.run(f"heartbeat {name} gen={self.generation_of.get(name, 0)}")

    @rule(name=CLIENT)
    def leave(self, name: str) -> None:
        self.bench.run(f"leave {name}")

    @rule(name=CLIENT, producer=st.sampled_from([7, 8]), offset=st.integers(0, 9))
    def commit(self, name: str, producer: int, offset: int) -> None:
        generation = self.generation_of.get(name, -1)
        self.bench.run(f"commit {name} gen={generation} t-0@{offset} u-1@{offset}")
        self.bench.run(f"txn_commit {name} {producer} gen={generation} t-0@{offset}")
        self.bench.run(f"commit x standalone t-0@{offset}")

    @rule(event=st.sampled_from(["end 7 commit", "end 8 abort", "end 8 commit", "topic"]))
    def end(self, event: str) -> None:
        if event == "topic":
            self.bench.run("delete_topic t")
            self.bench.add_partitions()
        else:
            self.bench.run(event)

    @rule(name=CLIENT)
    def vanish(self, name: str) -> None:
        self.bench.run(f"forget {name}")

    @rule(duration=st.sampled_from(["1ms", "3s", "6s", "10s", "60s"]))
    def wait(self, duration: str) -> None:
        self.bench.run(f"after {duration}")
        self.forget_ended()
        group = self.bench.groups.live.groups.get("g")
        assert group is None or group.due_ms is None or group.due_ms > self.bench.now_ms
        for member in group.members.values() if group else ():
            deadline_ms = member.session_deadline_ms
            assert member.awaits_answer if deadline_ms is None else deadline_ms > self.bench.now_ms

    @rule(how=st.sampled_from(["restart", "restart_from_snapshot"]))
    def restart(self, how: str) -> None:
        if how == "restart_from_snapshot":
            snapshot = list(self.bench.groups.pieces())
        self.bench.run(how)
        if how == "restart_from_snapshot":
            assert list(self.bench.groups.pieces()) == snapshot
        self.last_generation = 0

    @rule(what=st.sampled_from(["describe", "list", "fetch all stable", "delete g"]))
    def operate(self, what: str) -> None:
        self.bench.run(what)
        self.forget_ended()

    def forget_ended(self) -> None:
        """Forget a deleted group's generation, since its successor starts again at 1."""
        if not self.bench.groups.exists("g"):
            self.last_generation = 0

    @invariant()
    def leader_is_a_member(self) -> None:
        group = self.bench.groups.live.groups.get("g")
        if group is None:
            return
        assert (group.leader in group.members) if group.members else not group.leader
        assert (group.join_deadline_ms is not None) == (group.state == "PreparingRebalance")
        if group.state == "CompletingRebalance":
            assert group.sync_deadline_ms is not None
            assert group.leader in group.pending_syncs
        assert set(group.static_members.values()) <= set(group.members)
        assert not set(group.pending_joins) & set(group.members)
        assert group.pending_syncs <= set(group.members)
        assert group.due_ms is None or group.due_ms <= min(
            [
                member.session_deadline_ms
                for member in group.members.values()
                if member.session_deadline_ms is not None
            ],
            default=group.due_ms,
        )

    @invariant()
    def waiting_tokens_are_known(self) -> None:
        assert set(self.bench.waiting) == self.bench.groups.live.parked

    def teardown(self) -> None:
        """Check that every wait ends if no member returns."""
        self.bench.check_every_prefix()
        for _ in range(8):
            self.bench.run("after 8d")
        assert not self.bench.waiting
        assert not self.bench.groups.live.parked


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
