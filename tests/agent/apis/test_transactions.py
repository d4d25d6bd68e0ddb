"""The APIs of transactional producers at every version, and their errors.

These are InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers and TxnOffsetCommit.
"""

from functools import partial
from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Outcome, Outcomes, Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead
from lacuna.controlplane.v1.transactions_pb2 import ProducerIdentity
from lacuna.wire.messages import transactions
from tests.agent.apis.groups import running
from tests.agent.apis.scripted import Setup, fences
from tests.agent.harness import TOPIC_ID, snapshot


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(version: int) -> None:
    """S8: a producer can pass its id and epoch from v3 on (KIP-360)."""
    initialized = ProducerIdentity(producer_id=5, producer_epoch=4)
    setup = Setup(init_producer_id=Reply(producer_id_initialized=initialized))
    asked = transactions.InitProducerIdRequest("x", 9000, 5, 3)
    answer = await setup.call(version, asked)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 5, 4)
    (command,) = setup.commands("init_producer_id")
    assert (command.producer_id, command.producer_epoch) == ((5, 3) if version >= 3 else (-1, -1))
    assert command.transaction_timeout_ms == 9000
    assert command.has_transactional_id
    code = int(ErrorCode.PRODUCER_FENCED)
    failed = Setup(
        init_producer_id=Reply(producer_id_initialized=ProducerIdentity(error_code=code))
    )
    answer = await failed.call(version, asked)
    assert answer.error_code == fences(4, version)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def adding(*topics: tuple[str, tuple[int, ...]]) -> transactions.AddPartitionsToTxnRequest:
    rows = [transactions.AddPartitionsToTxnTopic(*each) for each in topics]
    return transactions.AddPartitionsToTxnRequest((), "x", 5, 3, rows)


def codes_of(topics: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    ]


@pytest.mark.parametrize("version", range(4))
async def test_add_partitions_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(add_partitions_to_txn=Reply(partitions_added_to_txn=Outcomes(error_code=code)))

    answer = await setup.call(version, adding(("t", (0, 1))))
    fenced = fences(2, version)
    assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, fenced), ("t", 1, fenced)]
    (command,) = setup.commands("add_partitions_to_txn")
    assert [(each.topic_id, each.partition) for each in command.partitions] == [
        (TOPIC_ID, 0),
        (TOPIC_ID, 1),
    ]
    answer = await setup.call(version, adding(("t", (0, 9)), ("nope", (0,))))
    assert codes_of(answer.results_by_topic_v3_and_below) == [
        ("t", 0, 55),
        ("t", 9, 3),
        ("nope", 0, 3),
    ]
    assert len(setup.commands("add_partitions_to_txn")) == 1


async def test_a_partition_that_another_agent_has_just_made_is_added() -> None:
    """librdkafka abandons a transaction if one of its new partitions is unknown."""
    setup = Setup(add_partitions_to_txn=Reply(partitions_added_to_txn=Outcomes()))

    def come(_: Command) -> Reply:
        topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)
        setup.control.cluster.apply(snapshot(topic))
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = come
    for _ in range(2):
        answer = await setup.call(3, adding(("t", (0, 2))))
        assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, 0), ("t", 2, 0)]
    assert len(setup.commands("read_partitions")) == 1


@pytest.mark.parametrize("version", [4, 5])
async def test_add_partitions_to_txn_in_batches(version: int) -> None:
    """Each transaction fails independently."""

    def decide(command: Command) -> Reply:
        asked = command.add_partitions_to_txn
        codes = [120 if asked.verify_only else 0] * len(asked.partitions)
        return Reply(partitions_added_to_txn=Outcomes(error_codes=codes))

    setup = Setup(add_partitions_to_txn=decide)
    topics = [transactions.AddPartitionsToTxnTopic("t", (1,))]
    rows = [
        transactions.AddPartitionsToTxnTransaction(name, 5, 0, name == "v", topics)
        for name in ("a", "v")
    ]
    answer = await setup.call(version, transactions.AddPartitionsToTxnRequest(rows))
    found = {
        each.transactional_id: codes_of(each.topic_results)
        for each in answer.results_by_transaction
    }
    assert found == {"a": [("t", 1, 0)], "v": [("t", 1, 120)]}


@pytest.mark.parametrize("version", range(5))
async def test_add_offsets_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(add_offsets_to_txn=Reply(offsets_added_to_txn=Outcome(error_code=code)))
    answer = await setup.call(version, transactions.AddOffsetsToTxnRequest("x", 5, 3, "g"))
    assert answer.error_code == fences(2, version)
    assert setup.commands("add_offsets_to_txn")[0].group_id == "g"


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("version", range(6))
async def test_end_txn(version: int, code: int) -> None:
    """S9: v5 bumps the epoch and returns the new one, or -1 and -1 with an error."""
    ended = ProducerIdentity(producer_id=5, producer_epoch=4)
    setup = Setup(end_txn=Reply(txn_ended=ended))
    answer = await setup.call(version, transactions.EndTxnRequest("x", 5, 3, True))
    (command,) = setup.commands("end_txn")
    assert command.committed
    assert command.bumps_epoch == (version >= 5)
    assert answer.error_code == 0
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (5, 4)
    failed = Setup(end_txn=Reply(txn_ended=ProducerIdentity(error_code=code, producer_id=5)))
    answer = await failed.call(version, transactions.EndTxnRequest("x", 5, 3))
    assert answer.error_code == fences(2, version)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_markers_from_outside_abort_and_never_commit() -> None:
    """Tests rule S21."""
    setup = Setup(abort_txn=Reply(txn_aborted=Outcome()))

    async def mark(commit: bool, name: str = "t") -> int:
        topics = [transactions.WritableTxnMarkerTopic(name, (0,))]
        marker = transactions.WritableTxnMarker(5, 3, commit, topics)
        answer = await setup.call(1, transactions.WriteTxnMarkersRequest([marker]))
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert await mark(commit=True) == 52
    assert await mark(commit=False, name="nope") == 3
    assert setup.commands("abort_txn") == []
    assert await mark(commit=False) == 0
    (command,) = setup.commands("abort_txn")
    assert (command.producer_id, command.producer_epoch) == (5, 3)


@pytest.mark.parametrize("version", range(6))
async def test_transactional_commits_at_every_version(version: int) -> None:
    """Offsets are pending until the transaction ends. If the group is not in it, the error depends on the version."""
    async with running() as run:
        wire = await run.connect()
        producer = await wire.call(2, transactions.InitProducerIdRequest("x", 60_000))
        assert producer.error_code == 0
        who = producer.producer_id, producer.producer_epoch
        refusal = {4: ErrorCode.TRANSACTION_ABORTABLE, 5: 0}.get(
            version, ErrorCode.INVALID_TXN_STATE
        )
        commit = partial(wire.commit_in_transaction, version)
        assert await commit("t", *who) == [refusal, 3]
        if version < 5:
            added = await wire.call(3, transactions.AddOffsetsToTxnRequest("x", *who, "g"))
            assert added.error_code == 0
            assert await commit("t", *who) == [0, 3]
        assert await commit("u", *who) == [3, 3]
        assert await commit("t", *who, group_id="") == [ErrorCode.INVALID_GROUP_ID, 3]
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        if producer.producer_epoch > 0:
            fenced = await commit("t", producer.producer_id, producer.producer_epoch - 1)
            assert fenced == [ErrorCode.INVALID_PRODUCER_EPOCH, 3]
        ended = await wire.call(3, transactions.EndTxnRequest("x", *who, True))
        assert ended.error_code == 0
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].committed_offset == 5
