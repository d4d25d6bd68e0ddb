"""Tests parts of rules that no other test covers, with raw frames sent to an embedded cluster. docs/rules.md has the
whole table.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import COMMITTED_BATCH, SegmentSlice, commit_of, verdicts_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import RegisterAgent, ReleaseLease
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition as PartitionMessage
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import (
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    MemberAssignment,
    SyncGroup,
)
from lacuna.controlplane.v1.log_pb2 import SegmentId
from lacuna.controlplane.v1.transactions_pb2 import AbortTxn, InitProducerId
from lacuna.testing import Cluster
from tests.clients.batch import batch, headers_of
from tests.clients.hurry import keep_leases
from tests.clients.librd import consumer
from tests.clients.probing import Producer, Target, creatable
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL
from tests.controlplane.verbs.cluster import Cluster as Machine
from tests.controlplane.verbs.script import run

MOST_RECORDS = 2**31 - 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two agents, one of which may not know what the other did."""
    with Cluster(agents=2) as running:
        keep_leases(running)
        yield running


@pytest.fixture
def target(cluster: Cluster) -> Iterator[Target]:
    """A connection to the first agent."""
    target = Target(cluster.bootstrap.split(",")[0])
    yield target
    target.close()


def _call(cluster: Cluster, verb: str, message: Any) -> Any:
    reply: Reply = cluster.run(cluster.embedded.control.call(Command(**{verb: message})))
    return getattr(reply, str(reply.WhichOneof("result")))


# S6


def test_s6_a_commit_passes_over_a_deleted_topic_and_its_name_begins_empty(target: Target) -> None:
    """A transaction covers two topics, one of which is deleted. The other one's part is committed completely."""
    gone, kept = target.topic(), target.topic()
    who = target.transactional()
    for topic in (gone, kept):
        assert target.add_partitions(who, topic) == "NONE"
        assert target.txn_produce(who, topic, 0, b"a", b"b") == "NONE"
    target.call("delete_topics", 5, topic_names=[gone], timeout_ms=1000)
    assert target.end(who, committed=True) == "NONE"
    assert target.fetch(kept, 0, isolation=1)["last_stable_offset"] == 2
    made = target.call("create_topics", 5, topics=[creatable(gone)], timeout_ms=1000)
    assert made["topics"][0]["error_code"] == 0
    answer = target.fetch(gone, 0, isolation=1)
    assert (answer["high_watermark"], answer["log_start_offset"]) == (0, 0)
    assert not answer["records"]


# S9


def test_s9_every_commit_and_abort_of_tv2_gives_the_next_epoch(target: Target) -> None:
    """Produce v12 adds the partition, and EndTxn v5 returns the epoch for the next batch."""
    topic = target.topic()
    who = target.transactional()
    for number, committed in enumerate([True, False, True, False]):
        assert target.txn_produce(who, topic, 0, b"v%d" % number, version=12) == "NONE"
        before = who.epoch
        answer = target.end_txn(who, committed, version=5)
        assert (answer["error_code"], answer["producer_id"]) == (0, who.id)
        assert answer["producer_epoch"] == before + 1
        who.epoch = answer["producer_epoch"]
    answer = target.fetch(topic, 0, isolation=1)
    assert answer["last_stable_offset"] == 4
    seen = headers_of(bytes(answer["records"]))
    kept = [(each.base_offset, each.last_offset, each.is_control) for each in seen]
    assert kept == [(0, 2, False), (3, 3, True)], "S19: small batches are one, with a hole in it"


# S15, S16


def test_s15_no_answer_begins_with_a_batch_that_the_client_has_passed(target: Target) -> None:
    """The test requests every offset of a log with batches of many sizes and with aborted ranges."""
    topic = target.topic()
    who = target.transactional()
    sequence = 0
    for size, committed in ((1, True), (5, False), (3, True), (2, False), (7, True), (4, False)):
        assert target.add_partitions(who, topic) == "NONE"
        values = [b"x"] * size
        assert target.txn_produce(who, topic, sequence, *values) == "NONE"
        sequence += size
        assert target.end(who, committed) == "NONE"
    end = target.fetch(topic, 0)["high_watermark"]
    assert end == 22
    for offset in range(end):
        for isolation in (0, 1):
            seen = headers_of(bytes(target.fetch(topic, offset, isolation=isolation)["records"]))
            assert seen, "never zero bytes over records or a hole"
            assert seen[0].last_offset >= offset
            assert all(each.partition_leader_epoch == 0 for each in seen), "S6"
            assert seen[-1].last_offset == end - 1, "S16: the position is at the bound at once"


# S17


def _enormous_hole(cluster: Cluster, topic: str) -> int:
    """Write two aborted batches of 2^31-1 records each. Their object is never read, so it need not exist."""
    topic_id = cluster.embedded.control.cluster.topics_by_name[topic].topic_id
    lease = _call(cluster, "register_agent", RegisterAgent(host="nobody", port=1)).lease_id
    wanted = InitProducerId(
        has_transactional_id=True,
        transactional_id=topic,
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    producer_id = _call(cluster, "init_producer_id", wanted).producer_id
    flags = TRANSACTIONAL | ADDS_PARTITION
    rows = [
        COMMITTED_BATCH.pack(position, 100, MOST_RECORDS, 1, producer_id, 0, base_sequence, flags)
        for position, base_sequence in ((64, 0), (164, MOST_RECORDS))
    ]
    partition = PartitionMessage(topic_id=topic_id, partition=0)
    given = SegmentSlice(key_of(partition), b"".join(rows))
    segment = SegmentId(lease_id=lease, sequence=1)
    commit = commit_of(segment, 1000, [given])
    committed = _call(cluster, "commit_segment", commit)
    assert list(verdicts_of(committed)[0].error_codes) == [0, 0]
    _call(cluster, "release_lease", ReleaseLease(lease_id=lease))
    aborted = _call(cluster, "abort_txn", AbortTxn(transactional_id=topic))
    assert aborted.error_code == ErrorCode.NONE
    return 2 * MOST_RECORDS


def test_s17_a_hole_of_four_thousand_million_offsets_is_one_answer(
    cluster: Cluster, target: Target
) -> None:
    """base_offset is the end minus 2^31, since a delta has 31 bits. S18: nothing is read to answer it."""
    topic = target.topic()
    end = _enormous_hole(cluster, topic)
    for asked, base in ((0, end - 2**31), (end - 2**31 + 5, end - 2**31 + 5), (end - 1, end - 1)):
        answer = target.fetch(topic, asked, isolation=1)
        assert (answer["error_code"], answer["last_stable_offset"]) == (0, end)
        (filler,) = headers_of(bytes(answer["records"]))
        assert (filler.base_offset, filler.last_offset) == (base, end - 1)
        assert (filler.count, filler.is_control, filler.producer_id) == (1, True, 0)
    assert not target.fetch(topic, end, isolation=1)["records"]


def test_s17_librdkafka_passes_a_hole_that_is_longer_than_a_batch_can_be(
    cluster: Cluster, target: Target
) -> None:
    """Its position moves to the end without an error."""
    topic = target.topic()
    end = _enormous_hole(cluster, topic)
    who = consumer(cluster.bootstrap, group_id=topic, enable_partition_eof=True)
    who.assign([TopicPartition(topic, 0, 0)])
    message = who.poll(60)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    assert message.offset() == end
    who.close()


# S21


def _described(target: Target, who: Producer, topic: str) -> dict[str, Any]:
    """Return what each API reports about one transaction."""
    producers = target.call(
        "describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}]
    )
    active = producers["topics"][0]["partitions"][0]["active_producers"]
    listed = target.call("list_transactions", 1, producer_id_filters=[who.id])
    described = target.call("describe_transactions", 0, transactional_ids=[who.transactional_id])
    (state,) = described["transaction_states"]
    return {
        "started at": [each["current_txn_start_offset"] for each in active],
        "last sequence": [each["last_sequence"] for each in active],
        "listed": [each["transaction_state"] for each in listed["transaction_states"]],
        "described": (state["transaction_state"], [each["topic"] for each in state["topics"]]),
        "latest": [target.list_offset(topic, -1, isolation=each)["offset"] for each in (0, 1)],
        "fetched": target.fetch(topic, 0, isolation=1)["last_stable_offset"],
    }


def test_s21_every_api_speaks_of_the_same_transaction(cluster: Cluster, target: Target) -> None:
    """DescribeProducers, ListTransactions, DescribeTransactions, ListOffsets and Fetch agree, before and after its end.

    Another agent reports the same.
    """
    topic = target.topic()
    target.produce(topic, batch([b"before"]))
    who = target.transactional()
    assert target.add_partitions(who, topic) == "NONE"
    assert target.txn_produce(who, topic, 0, b"a", b"b", b"c") == "NONE"
    ongoing = {
        "started at": [1],
        "last sequence": [2],
        "listed": ["Ongoing"],
        "described": ("Ongoing", [topic]),
        "latest": [4, 1],
        "fetched": 1,
    }
    other = Target(cluster.bootstrap.split(",")[1])
    seen = [_described(each, who, topic) for each in (target, other)]
    listed = [state for each in seen for state in each.pop("listed")]
    assert listed == ongoing.pop("listed"), "each transaction is listed by one agent"
    assert seen == [ongoing, ongoing]
    assert target.end(who, committed=False) == "NONE"
    ended = {
        "started at": [-1],
        "last sequence": [2],
        "described": ("CompleteAbort", []),
        "latest": [4, 4],
        "fetched": 4,
    }
    for each in (target, other):
        after = _described(each, who, topic)
        assert after.pop("listed") in ([], ["CompleteAbort"])
        assert after == ended
    other.close()


# S8, S26


def test_s26_a_heartbeat_is_not_journalled() -> None:
    """Neither is a JoinGroup before the assignment exists."""
    state = Machine()
    joining = JoinGroup(
        group_id="g",
        protocol_type="consumer",
        protocols=[GroupProtocol(name="range")],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )
    joined = state.do("join_group", joining)
    who = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    before = len(state.journal)
    assignment = MemberAssignment(member_id=joined.member_id, assignment=b"all")
    assert state.do("sync_group", SyncGroup(**who, assignments=[assignment])).assignment == b"all"
    assert len(state.journal) == before + 1
    for _ in range(3):
        assert state.do("heartbeat", Heartbeat(**who)).error_code == ErrorCode.NONE
    assert len(state.journal) == before + 1


def test_s26_s8_after_a_restart_transaction_deadlines_are_where_they_were() -> None:
    """Sessions start over, but a transaction's timeout does not."""
    state = run("topic a 1\ninit x timeout=5000 -> 1/0\nadd x 1/0 a-0 -> NONE\nclock +4999 ->")
    state.state = machine.restore((machine.snapshot(state.state),))
    assert state.tick() == []
    assert state.tick(after_ms=1) == ["transaction_ended"]
