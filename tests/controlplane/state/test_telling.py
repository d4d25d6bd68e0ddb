"""Tests what `--verbose` logs for an operator."""

from typing import Any

from lacuna.controlplane import machine
from lacuna.controlplane.decision import Decision
from lacuna.controlplane.v1.cluster_pb2 import ReleaseLease
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupStep,
    ConsumerMember,
    ConsumerSubscription,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupMember, GroupRecord
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.script import run


class Told(Cluster):
    """Keeps each record's log line, as the runtime logs it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.command: Command | None = None
        super().__init__()

    def reply(self, verb: str, message: Any) -> Any:
        self.command = Command(**{verb: message})
        try:
            return super().reply(verb, message)
        finally:
            self.command = None

    def decide(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.lines += filter(None, [machine.describe(self.state, self.command, record)])
        return super().decide(decision)


def told(table: str) -> list[str]:
    cluster = Told()
    cluster.lines.clear()
    run(table, cluster)
    return cluster.lines


def test_topics_and_agents() -> None:
    cluster = Told()
    assert cluster.lines == ["agent agent:9092 (node 1) has joined"]
    cluster.do("release_lease", ReleaseLease(lease_id=cluster.lease_id))
    cluster.register(9093)
    cluster.tick()  # its lease counts from here
    assert cluster.tick(3_600_000)
    assert cluster.lines[1:] == [
        "agent agent:9092 (node 1) has left: it was shut down",
        "agent agent:9093 (node 2) has joined",
        "agent agent:9093 (node 2) has left: its lease expired",
    ]
    assert told("topic a 2\n delete-topic a") == ["created a (2)", "deleted a"]


def test_who_aborted_a_transaction() -> None:
    begun = "topic a 1\n init x timeout=1000\n put a-0 x1 1/0@0 tv2\n"
    ends = {
        "end2 x 1/0 commit": [],
        "end2 x 1/0 abort": ["its producer requested it"],
        "abort x": ["an operator requested it"],
        "init x": ["a producer with the same transactional id has started"],
        "clock +20000": ["it exceeded its timeout"],
    }
    for end, reasons in ends.items():
        wanted = [f"aborted the transaction of 'x': {reason}" for reason in reasons]
        assert told(begun + end)[1:] == wanted, end


def test_a_rebalance_names_group_generation_and_members() -> None:
    state = Cluster().state
    member = GroupMember(member_id="m", client_id="app", client_host="/10.0.0.7")
    generation = GroupGeneration(group_id="g", generation_id=3, members=[member])
    record = JournalRecord(group=GroupRecord(group_generation=generation))
    said = "group 'g' rebalanced: generation 3, 1 member: app@10.0.0.7"
    assert machine.describe(state, None, record) == said
    machine.replay(state, record)
    assert machine.describe(state, None, record) == ""

    members = [
        ConsumerMember(
            member_id=member_id,
            subscription=ConsumerSubscription(client_id=client_id, client_host="/10.0.0.7"),
        )
        for member_id, client_id in (("a", "one"), ("b", "two"))
    ]
    step = ConsumerGroupStep(group_id="c", group_epoch=2, members=members)
    record = JournalRecord(group=GroupRecord(consumer_group_step=step))
    said = "group 'c' rebalances: epoch 2, 2 members: one@10.0.0.7, two@10.0.0.7"
    assert machine.describe(state, None, record) == said
    machine.replay(state, record)
    assert machine.describe(state, None, record) == ""

    # What a step tells of a member that stays lacks its subscription.
    still = ConsumerMember(member_id="b")
    step = ConsumerGroupStep(group_id="c", group_epoch=3, removed_member_ids=["a"], members=[still])
    record = JournalRecord(group=GroupRecord(consumer_group_step=step))
    said = "group 'c' rebalances: epoch 3, 1 member: two@10.0.0.7"
    assert machine.describe(state, None, record) == said
    machine.replay(state, record)
    step = ConsumerGroupStep(group_id="c", group_epoch=4, removed_member_ids=["b"])
    record = JournalRecord(group=GroupRecord(consumer_group_step=step))
    assert machine.describe(state, None, record) == "group 'c' rebalances: epoch 4, no members"
