"""What clients can leave in the control plane with groups and names is bounded (docs/operations.md)."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
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
from lacuna.controlplane.v1.transactions_pb2 import AddOffsetsToTxn, InitProducerId
from lacuna.controlplane.verbs import producers, topics, transactions
from tests.controlplane.verbs.cluster import Cluster

MOST = 1 << 20
SIZES = st.sampled_from([0, 100, 10_000, 200_000, 1_000_000, 2_000_000])
GROUPS = st.sampled_from([f"g{number}" for number in range(6)])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "sync", "leave", "beat", "commit", "configs", "delete", "expire"]),
        GROUPS,
        SIZES,
    ),
    max_size=60,
)


class Clients:
    """Clients of a cluster whose groups may keep a MiB."""

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


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_groups_keep_no_more_than_they_may(steps: list[tuple[str, str, int]]) -> None:
    clients = Clients()
    for step, group_id, size in steps:
        getattr(clients, step)(group_id, size)
        groups = clients.cluster.state.groups
        # What a member, a group or a configuration takes beside what its client chooses is counted afterwards.
        assert groups.kept_bytes <= MOST + 4096
    again = machine.restore((machine.snapshot(clients.cluster.state),)).groups
    groups = clients.cluster.state.groups
    assert (again.size, again.offsets.size) == (groups.size, groups.offsets.size)
    assert again.sizes == groups.sizes


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
    with mock.patch.object(producers, "MOST_TRANSACTIONAL_ID_BYTES", 5_000):
        codes = [
            cluster.do(
                "init_producer_id",
                InitProducerId(
                    has_transactional_id=True,
                    transactional_id=f"{number}",
                    transaction_timeout_ms=1000,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
            ).error_code
            for number in range(6)
        ]
    assert codes == [0, 0, 0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    cluster.tick()
    cluster.tick(8 * 86_400_000)
    assert cluster.state.transactional_id_bytes == 0


def test_groups_of_a_transaction_are_bounded() -> None:
    cluster = Cluster()
    init = InitProducerId(
        has_transactional_id=True,
        transactional_id="x",
        transaction_timeout_ms=1000,
        producer_id=-1,
        producer_epoch=-1,
    )
    producer_id = cluster.do("init_producer_id", init).producer_id
    with mock.patch.object(transactions, "MOST_GROUPS_OF_TRANSACTION", 2):
        codes = [
            cluster.do(
                "add_offsets_to_txn",
                AddOffsetsToTxn(
                    transactional_id="x",
                    producer_id=producer_id,
                    producer_epoch=0,
                    group_id=f"g{number}",
                ),
            ).error_code
            for number in (0, 1, 2, 1)
        ]
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0]


def test_partitions_of_a_cluster_are_bounded() -> None:
    cluster = Cluster()
    cluster.create("a", 2)
    with (
        mock.patch.object(topics, "MOST_PARTITIONS", 3),
        pytest.raises(AssertionError, match="at most 3 partitions, and has 2: delete topics first"),
    ):
        cluster.create("b", 2)
