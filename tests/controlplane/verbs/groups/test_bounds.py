"""Tests that the groups and names that clients leave in the control plane are bounded (docs/limits.md)."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import state as state_module
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.groups.store import Groups
from lacuna.controlplane.v1.cluster_pb2 import (
    ConfigChange,
    CreatePartitions,
    CreatePartitionsTopic,
    DeleteTopics,
)
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs, ConsumerGroupHeartbeat
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    DeleteGroups,
    GroupProtocol,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    OffsetCommit,
    SyncGroup,
)
from lacuna.controlplane.v1.transactions_pb2 import AddOffsetsToTxn
from lacuna.controlplane.verbs import topics, transactions
from tests.controlplane.verbs.cluster import Cluster, init_of

MOST = 1 << 20
SIZES = st.sampled_from([0, 100, 10_000, 200_000, 1_000_000, 2_000_000])
GROUPS = st.sampled_from([f"g{number}" for number in range(6)])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "sync", "leave", "beat", "commit", "configs", "delete", "expire"]),
        GROUPS,
        SIZES,
        st.sampled_from(["", "User:alice", "User:bob"]),
    ),
    max_size=60,
)


class Clients:
    """Clients of a cluster whose groups may take up 1 MiB."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.state.groups.settings = GroupSettings(groups_max_bytes=MOST)
        self.cluster.create("t", 200)
        self.joined: dict[str, tuple[str, int]] = {}
        self.codes: set[int] = set()

    def join(self, group_id: str, size: int) -> None:
        protocol = GroupProtocol(name="range", metadata=bytes(size))
        command = JoinGroup(
            group_id=group_id,
            client_id="c",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="x",
            protocols=[protocol],
        )
        self.joined.pop(group_id, None)
        reply = self.cluster.reply("join_group", command)
        if reply is not None:
            self.codes.add(reply.group_joined.error_code)
            if not reply.group_joined.error_code:
                joined = reply.group_joined
                self.joined[group_id] = joined.member_id, joined.generation_id

    def sync(self, group_id: str, size: int) -> int | None:
        member_id, generation_id = self.joined.get(group_id, ("", 0))
        assignment = MemberAssignment(member_id=member_id, assignment=bytes(size))
        command = SyncGroup(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            assignments=[assignment],
        )
        reply = self.cluster.reply("sync_group", command)
        return None if reply is None else reply.group_synced.error_code

    def leave(self, group_id: str, _: int) -> None:
        member_id, _ = self.joined.pop(group_id, ("", 0))
        leaving = LeavingMember(member_id=member_id)
        self.cluster.reply("leave_group", LeaveGroup(group_id=group_id, members=[leaving]))

    def beat(self, group_id: str, size: int) -> None:
        command = ConsumerGroupHeartbeat(
            group_id=f"consumers of {group_id}",
            member_id=f"m{size}",
            rebalance_timeout_ms=1000,
            has_owned=True,
            has_topic_names=True,
            topic_names=["n" * 200 + str(number) for number in range(min(size, 900_000) // 210)],
        )
        self.cluster.reply("consumer_group_heartbeat", command)

    def commit(self, group_id: str, size: int) -> int:
        offsets = [
            CommittedOffset(
                partition=self.cluster.partition(f"t-{number}"), metadata="m" * min(size, 4096)
            )
            for number in range(200)
        ]
        command = OffsetCommit(group_id=f"offsets {group_id}", generation_id=-1, offsets=offsets)
        code: int = self.cluster.do("offset_commit", command).error_codes[0]
        return code

    def configs(self, group_id: str, size: int) -> None:
        change = ConfigChange(name="consumer.session.timeout.ms", value="50000")
        command = AlterGroupConfigs(group_id=f"{group_id}-{size}", changes=[change])
        self.cluster.reply("alter_group_configs", command)

    def delete(self, group_id: str, _: int) -> None:
        names = [group_id, f"offsets {group_id}", f"consumers of {group_id}"]
        self.cluster.reply("delete_groups", DeleteGroups(group_ids=names))

    def expire(self, *_: Any) -> None:
        self.cluster.tick(60_000)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_groups_keep_no_more_than_they_may(steps: list[tuple[str, str, int, str]]) -> None:
    clients = Clients()
    for step, group_id, size, principal in steps:
        clients.cluster.principal = principal
        getattr(clients, step)(group_id, size)
        groups = clients.cluster.state.groups
        # What a member, a group or a configuration takes beside what its client chooses is counted afterwards.
        assert groups.kept_bytes <= MOST + 4096
        for each in ("User:alice", "User:bob"):
            assert charged_to(groups, each) <= MOST // 2 + 4096
        assert groups.owners.size == groups.size + groups.offsets.size
        assert groups.live.owners.size == groups.live.size
        assert groups.owners.of.keys() <= {*groups.sizes, *groups.offsets.group_ids()}
        assert groups.live.owners.of.keys() <= groups.live.sizes.keys()
    again = machine.restore((machine.snapshot(clients.cluster.state),)).groups
    groups = clients.cluster.state.groups
    assert (again.size, again.offsets.size) == (groups.size, groups.offsets.size)
    assert again.sizes == groups.sizes
    assert (again.owners.of, again.owners.held) == (groups.owners.of, groups.owners.held)


def charged_to(groups: Groups, principal: str) -> int:
    return groups.owners.charged_to(principal) + groups.live.owners.charged_to(principal)


@pytest.mark.slow
def test_a_principal_leaves_no_more_than_its_share_and_others_go_on() -> None:
    clients = Clients()
    clients.cluster.state.groups.settings = GroupSettings(groups_max_bytes=2 * MOST)
    clients.cluster.principal = "User:alice"
    assert clients.commit("a", 4096) == ErrorCode.NONE
    assert clients.commit("b", 4096) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    clients.join("b", 900_000)
    assert clients.codes == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert clients.commit("a", 4096) == ErrorCode.NONE, "what is there can be replaced"
    clients.cluster.principal = "User:bob"
    assert clients.commit("b", 4096) == ErrorCode.NONE
    assert clients.cluster.state.groups.owners.of == {
        "offsets a": "User:alice",
        "offsets b": "User:bob",
    }
    clients.cluster.check()
    clients.delete("b", 0)
    assert clients.cluster.state.groups.owners.of == {"offsets a": "User:alice"}


def test_a_member_that_waits_is_charged_to_its_principal() -> None:
    clients = Clients()
    clients.cluster.principal = "User:alice"
    clients.join("a", 100_000)
    groups = clients.cluster.state.groups
    assert charged_to(groups, "User:alice") > 100_000
    clients.cluster.principal = "User:bob"
    assert clients.sync("a", 10) in (None, ErrorCode.NONE)
    assert groups.owners.of == {"a": "User:alice"}, "the first one's, whoever makes its generation"
    again = machine.restore((machine.snapshot(clients.cluster.state),))
    again.groups.open("a", clients.cluster.now_ms)
    again.groups.live.weigh("a")
    assert charged_to(again.groups, "User:alice") > 100_000


def test_the_anonymous_principal_alone_may_leave_everything() -> None:
    clients = Clients()
    assert clients.commit("a", 4096) == ErrorCode.NONE, "over a half"
    clients.delete("a", 0)
    clients.cluster.principal = "User:alice"
    clients.configs("g", 1)
    clients.cluster.principal = ""
    assert clients.commit("a", 4096) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE


def add_groups(cluster: Cluster, *group_ids: str) -> list[int]:
    """Add groups to a new transaction. Return the error codes."""
    ids = cluster.initialize("x", 1_000)
    added = [AddOffsetsToTxn(group_id=each, **ids) for each in group_ids]
    return [cluster.do("add_offsets_to_txn", each).error_code for each in added]


def test_transactional_ids_of_a_principal_are_bounded() -> None:
    cluster = Cluster()
    with mock.patch.object(state_module, "MOST_TRANSACTIONAL_ID_BYTES", 5_000):
        codes = []
        for principal in ("User:alice", "User:bob"):
            cluster.principal = principal
            codes += [
                cluster.do("init_producer_id", init_of(f"{principal} {number}", 1_000)).error_code
                for number in (0, 1, 2, 1)
            ]
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0] * 2
    cluster.check()
    again = machine.restore((machine.snapshot(cluster.state),)).id_owners
    assert (again.of, again.held) == (cluster.state.id_owners.of, cluster.state.id_owners.held)
    cluster.tick()
    cluster.tick(8 * 86_400_000)
    assert not cluster.state.id_owners.of


def test_groups_of_transactions_count_with_their_transactional_ids() -> None:
    cluster = Cluster()
    cluster.principal = "User:alice"
    with mock.patch.object(state_module, "MOST_TRANSACTIONAL_ID_BYTES", 8_000):
        codes = add_groups(cluster, "a" * 2000, "b" * 2000)
    assert codes == [0, ErrorCode.POLICY_VIOLATION]
    cluster.check()
    cluster.tick(1_001)
    assert cluster.state.id_owners.held == {"User:alice": 1025}


def test_an_assignment_that_is_too_large_is_refused_as_kafka_does() -> None:
    clients = Clients()
    clients.join("g", 100)
    assert clients.sync("g", MOST + 1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert clients.cluster.state.groups.size < 1000
    assert clients.sync("g", 1000) in (None, ErrorCode.NONE)


def test_offsets_that_are_there_can_be_committed_again_when_all_is_full() -> None:
    clients = Clients()
    assert [clients.commit(f"{number}", 4096) for number in range(2)] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ]
    assert clients.commit("0", 4096) == ErrorCode.NONE


def test_transactional_ids_are_bounded() -> None:
    cluster = Cluster()
    with mock.patch.object(state_module, "MOST_TRANSACTIONAL_ID_BYTES", 5_000):
        codes = [
            cluster.do("init_producer_id", init_of(f"{number}", 1_000)).error_code
            for number in range(6)
        ]
    assert codes == [0, 0, 0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    cluster.tick()
    cluster.tick(8 * 86_400_000)
    assert cluster.state.id_owners.size == 0


def test_groups_of_a_transaction_are_bounded() -> None:
    cluster = Cluster()
    with mock.patch.object(transactions, "MOST_GROUPS_OF_TRANSACTION", 2):
        codes = add_groups(cluster, "g0", "g1", "g2", "g1")
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0]


def test_partitions_of_a_principal_are_bounded() -> None:
    cluster = Cluster()
    with mock.patch.object(topics, "MOST_PARTITIONS", 8):
        cluster.principal = "User:alice"
        cluster.create("a", 2)
        cluster.principal = "User:bob"
        cluster.create("b", 3)
        wanted = [CreatePartitionsTopic(name=name, partition_count=4) for name in ("a", "b")]
        grown = cluster.do("create_partitions", CreatePartitions(topics=wanted)).topics
        assert [each.error_code for each in grown] == [0, 0]
        wanted = [CreatePartitionsTopic(name="a", partition_count=5)]
        with mock.patch.object(topics, "MOST_PARTITIONS", 9):
            (grown,) = cluster.do("create_partitions", CreatePartitions(topics=wanted)).topics
        assert grown.error_code == ErrorCode.POLICY_VIOLATION, "it is alice's, whoever asks"
    owners = cluster.state.topic_owners
    assert owners.held == {"User:alice": 4, "User:bob": 4}
    cluster.check()
    again = machine.restore((machine.snapshot(cluster.state),)).topic_owners
    assert (again.of, again.held, again.size) == (owners.of, owners.held, owners.size)
    names = [cluster.state.topics_by_name[name].topic_id for name in ("a", "b")]
    cluster.do("delete_topics", DeleteTopics(topic_ids=names))
    assert (owners.of, owners.held, owners.size) == ({}, {}, 0)


def test_partitions_of_a_cluster_are_bounded() -> None:
    cluster = Cluster()
    cluster.create("a", 2)
    with (
        mock.patch.object(topics, "MOST_PARTITIONS", 3),
        pytest.raises(
            AssertionError, match="at most 3 partitions, and this one has 2: delete topics first"
        ),
    ):
        cluster.create("b", 2)
