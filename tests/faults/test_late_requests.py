"""Tests late, repeated and zombie requests: EndTxn, timeouts, the last epoch and sequences (S4, S5, S8, S9, S10),
across restarts of the whole cluster and through two agents.

tests/clients/probes_end_txn.py, probes_txn.py and probes_idempotence.py compare the fault-free verdicts with Kafka's.
This module tests what a reader finds, and that a restart or another agent changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lacuna.controlplane.decision import Decision
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, ProducerInitialized
from lacuna.operating.agents import AgentParts
from tests.clients.batch import batch
from tests.clients.probing import Producer, Target, error_name
from tests.simulation.stage import COMMITTED, UNCOMMITTED, Stage, staged

TV1, TV2 = 4, 5
PRODUCE = {TV1: 11, TV2: 12}


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Two agents on one control plane."""
    yield from staged(agents=2, parts=AgentParts())


def bumped(who: Producer, by: int = 1) -> Producer:
    """Return the same producer, some epochs later."""
    fields = {"producer_id": who.id, "producer_epoch": who.epoch + by}
    return Producer(fields, who.transactional_id)


def send(
    t: Target, who: Producer, topic: str, version: int, *values: bytes, sequence: int = 0
) -> None:
    """Send records in a transaction, as a client that uses this EndTxn version does."""
    if version == TV1:
        assert t.add_partitions(who, topic) == "NONE"
    sent = t.txn_produce(who, topic, sequence, *values, version=PRODUCE[version])
    assert sent == "NONE"


def identity(answer: dict[str, int]) -> tuple[int, int, int]:
    """Return the error code, producer id and producer epoch."""
    return answer["error_code"], answer["producer_id"], answer["producer_epoch"]


def test_a_delayed_commit_of_tv1_commits_the_next_transaction(stage: Stage) -> None:
    """S5, seed 004_: it looks like a valid commit, but the transaction that it commits is complete."""
    one, two = stage.targets()
    topic, who = one.topic(retention_ms=-1), one.transactional()
    send(one, who, topic, TV1, b"first")
    assert one.end(who, True, TV1) == "NONE"
    send(two, who, topic, TV1, b"meant", b"to be aborted", sequence=1)
    assert one.end(who, True, TV1) == "NONE", "the delayed commit"
    assert two.end(who, False, TV1) == "INVALID_TXN_STATE"
    assert stage.read(topic).values == [b"first", b"meant", b"to be aborted"]


def test_a_delayed_commit_of_tv2_is_refused(stage: Stage) -> None:
    """S5, S9, seed 004_, KIP-890: the new epoch exposes it."""
    one, two = stage.targets()
    topic, who = one.topic(retention_ms=-1), one.transactional()
    send(one, who, topic, TV2, b"first")
    assert identity(one.end_txn(who, True, TV2)) == (0, who.id, who.epoch + 1)
    send(two, bumped(who), topic, TV2, b"meant to be aborted")
    assert one.end(who, True, TV2) == "PRODUCER_FENCED", "the delayed commit"
    assert stage.read(topic).values == [b"first"]
    assert identity(two.end_txn(bumped(who), False, TV2)) == (0, who.id, who.epoch + 2)
    assert stage.read(topic, COMMITTED).values == [b"first"]
    assert stage.read(topic, UNCOMMITTED).values == [b"first", b"meant to be aborted"]


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_retried_end_finds_its_answer_after_a_crash(
    stage: Stage, version: int, committed: bool
) -> None:
    """S2, S5: every agent repeats the answer that was lost in a crash."""
    one, _ = stage.targets()
    topic, who = one.topic(retention_ms=-1), one.transactional()
    send(one, who, topic, version, b"value")
    first = one.end_txn(who, committed, version)
    stage.kill()
    one, two = stage.targets()
    assert two.end_txn(who, committed, version) == first
    assert one.end_txn(who, committed, version) == first
    assert one.end(who, not committed, version) == "INVALID_TXN_STATE"
    assert stage.read(topic).values == [b"value"] * committed


@pytest.mark.slow
@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_timeout_aborts_and_fences(stage: Stage, version: int) -> None:
    """S5, S8: at transaction.timeout.ms, and not before. A restart does not extend it (S26)."""
    one, two = stage.targets()
    topic, who = one.topic(retention_ms=-1), one.transactional(timeout=600_000)
    send(one, who, topic, version, b"slow")
    stage.advance(400)
    assert stage.read(topic, UNCOMMITTED).values == [b"slow"]
    assert one.fetch(topic, 0)["last_stable_offset"] == 0
    stage.kill()
    one, two = stage.targets()
    assert one.fetch(topic, 0)["last_stable_offset"] == 0
    stage.advance(210)
    assert one.fetch(topic, 0)["last_stable_offset"] == 1
    late = two.txn_produce(who, topic, 1, version=PRODUCE[version])
    assert late == "INVALID_PRODUCER_EPOCH"
    assert two.end(who, True, version) == "PRODUCER_FENCED"
    assert stage.read(topic).values == []
    heir = two.transactional(who.transactional_id)
    assert (heir.id, heir.epoch) == (who.id, who.epoch + 2)
    send(two, heir, topic, version, b"fresh")
    assert two.end(heir, True, version) == "NONE"
    assert stage.read(topic).records == [(1, b"fresh")]


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_zombie_changes_nothing(stage: Stage, version: int, is_restarted: bool) -> None:
    """S4, S8: every agent rejects all requests with the old epoch."""
    one, two = stage.targets()
    topic, zombie = one.topic(retention_ms=-1), one.transactional()
    send(one, zombie, topic, version, b"zombie")
    heir = two.transactional(zombie.transactional_id)
    if is_restarted:
        stage.kill()
    for t in stage.targets():
        assert t.txn_produce(zombie, topic, 1, version=PRODUCE[version]) == "INVALID_PRODUCER_EPOCH"
        plain = batch(producer_id=zombie.id, producer_epoch=zombie.epoch, base_sequence=1)
        assert t.verdict(topic, plain) == "INVALID_PRODUCER_EPOCH"
        assert t.add_partitions(zombie, topic) == "PRODUCER_FENCED"
        for committed in (True, False):
            assert t.end(zombie, committed, version) == "PRODUCER_FENCED"
        answer = t.call("add_offsets_to_txn", 3, **zombie.fields, group_id="group")
        assert error_name(answer["error_code"]) == "PRODUCER_FENCED"
    send(two if not is_restarted else stage.targets()[1], heir, topic, version, b"heir")
    assert stage.targets()[0].end(heir, True, version) == "NONE"
    assert stage.read(topic).records == [(1, b"heir")]


async def _bump(stage: Stage, who: Producer, epoch: int) -> None:
    """Journal the InitProducerId that reaches this epoch, instead of sending 32,766 such requests."""
    runtime = stage.control.runtime
    assert runtime is not None
    bumped = ProducerInitialized(
        producer_id=who.id,
        producer_epoch=epoch,
        has_transactional_id=True,
        transactional_id=who.transactional_id,
        transaction_timeout_ms=60_000,
        last_producer_epoch=-1,
        previous_producer_id=-1,
    )
    runtime._apply(Decision(records=[JournalRecord(producer_initialized=bumped)]))
    runtime._appender.append_now()


@pytest.mark.parametrize("version", [TV1, TV2])
def test_after_the_last_epoch_comes_another_producer_id(stage: Stage, version: int) -> None:
    """S5, S8: the rollover loses nothing, a retry gets the same new identity, and zombies remain fenced."""
    one, two = stage.targets()
    topic, who = one.topic(retention_ms=-1), one.transactional()
    stage.run(_bump(stage, who, 32_766), stage.control)
    last = bumped(who, 32_766 - who.epoch)
    send(one, last, topic, version, b"last")
    ended = one.end_txn(last, True, version)
    stage.kill()
    one, two = stage.targets()
    assert two.end_txn(last, True, version) == ended
    if version == TV2:
        assert ended["producer_id"] != who.id
        assert ended["producer_epoch"] == 0
        assert two.end(last, False, version) == "INVALID_TXN_STATE"
        heir = Producer(ended, who.transactional_id)
    else:
        heir = two.transactional(who.transactional_id)
        assert heir.id != who.id
        assert heir.epoch == 0
    assert one.txn_produce(last, topic, 1, version=PRODUCE[version]) in (
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_PRODUCER_EPOCH",
    )
    send(one, heir, topic, version, b"next")
    assert one.end(heir, True, version) == "NONE"
    assert stage.read(topic).values == [b"last", b"next"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_sequences_are_known_everywhere(stage: Stage, is_restarted: bool) -> None:
    """S10, S11: at every agent and after a crash, duplicates get their first offset and time, and gaps are rejected."""
    one, _ = stage.targets()
    topic, who = (
        one.topic(retention_ms=-1, message_timestamp_type="LogAppendTime"),
        one.idempotent(),
    )

    def sent(t: Target, sequence: int) -> tuple[str, int, int]:
        data = batch(producer_id=who.id, producer_epoch=who.epoch, base_sequence=sequence)
        row = t.produce(topic, data)
        return error_name(row["error_code"]), row["base_offset"], row["log_append_time_ms"]

    first = [sent(t, number) for number, t in enumerate(stage.targets() * 3)]
    assert [row[:2] for row in first] == [("NONE", number) for number in range(6)]
    stage.advance(10)
    if is_restarted:
        stage.kill()
    for t in stage.targets():
        assert [sent(t, number) for number in range(1, 6)] == first[1:]
        assert sent(t, 0)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER", "older than the last five"
        assert sent(t, 7)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER", "a gap"
    assert sent(stage.targets()[1], 6)[:2] == ("NONE", 6)
    assert stage.read(topic).offsets == list(range(7))
