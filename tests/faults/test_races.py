"""Tests pairs of concurrent events in the worst order: slow PUTs, lost replies, dead agents, deleted topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lacuna.agent.housekeeping import Housekeeping
from lacuna.testing.faults import Fault, FaultKind
from tests.clients.batch import batch
from tests.clients.probing import Target, error_name
from tests.simulation.stage import (
    GRACE_SECONDS,
    PARTS,
    UNCOMMITTED,
    CommitLink,
    Delayed,
    Outbox,
    Stage,
    StagedAgent,
    staged,
)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Two agents over a store with faults."""
    yield from staged(agents=2)


def collect(stage: Stage, agent: StagedAgent) -> int:
    """Advance past the grace period. Return the number of uncommitted objects that the agent finds and deletes."""
    assert PARTS.housekeeping is not None
    stage.advance(GRACE_SECONDS + 1)  # a lease ends at a tick
    collector = Housekeeping(agent.running.context, PARTS.housekeeping).collector
    return stage.run(collector.run_once(), agent).uncommitted


def housekeeping_of(stage: Stage) -> Housekeeping:
    """Return the housekeeping of the agent that runs it."""
    found = stage.agents[0].running.housekeeping
    assert found is not None
    return found


def send(target: Target, topic: str, *values: bytes) -> None:
    """Send each record in a separate flush."""
    for value in values:
        assert target.verdict(topic, batch([value])) == "NONE"


@pytest.mark.slow
def test_a_put_that_arrives_after_its_lease(stage: Stage) -> None:
    """S10, S12: its commit is rejected, the client resends under the next lease, and the object is swept."""
    topic = stage.create_topic()
    outbox = Outbox(stage, topic)
    outbox.send(b"before")
    assert outbox.flush() == [0]
    hold = stage.store.hold("put")
    outbox.send(b"slow 1", b"slow 2", b"slow 3")
    hold.wait_until_reached()
    stage.end_leases()
    hold.release()
    assert outbox.flush() == [0, 1, 2, 3]
    values = [b"before", b"slow 1", b"slow 2", b"slow 3"]
    assert stage.read(topic).values == values
    count = stage.segments
    swept = collect(stage, stage.agents[0])
    assert swept >= 1
    assert stage.segments == count - swept
    assert stage.read(topic).values == values


@pytest.mark.parametrize("fault", ["lose_commands", "lose_replies"])
def test_a_commit_that_is_lost_on_the_way(stage: Stage, fault: str) -> None:
    """S2, S10: if the request or the reply is lost, the commit is resent under the same segment id and gets the same
    verdicts.
    """
    topic = stage.create_topic()
    links = [CommitLink(stage, agent) for agent in stage.agents]
    for link in links:
        setattr(link, fault, 2)
    outbox = Outbox(stage, topic)
    outbox.send(b"one", b"two")
    assert outbox.flush() == [0, 1]
    (one, _) = stage.targets()
    who = one.transactional()
    assert one.add_partitions(who, topic) == "NONE"
    for link in links:
        setattr(link, fault, 1)
    three = one.txn_batch(who, 0, b"three")
    row = one.produce(topic, three, transactional_id=who.transactional_id)
    assert (row["error_code"], row["base_offset"]) == (0, 2)
    assert one.end(who, True) == "NONE"
    assert stage.read(topic).values == [b"one", b"two", b"three"]
    flushers = [agent.running.context.produce.flusher for agent in stage.agents]
    assert sum(flusher.metrics.commits_repeated for flusher in flushers) == 3
    assert sum(flusher.metrics.flushes_failed for flusher in flushers) == 0


@pytest.mark.slow
def test_an_agent_that_dies_between_put_and_commit(stage: Stage) -> None:
    """S2, S10: none of its records are visible, the client moves to the other agent, and the object is swept."""
    topic = stage.create_topic()
    links = [CommitLink(stage, agent) for agent in stage.agents]
    for link in links:
        link.is_cut = True
    outbox = Outbox(stage, topic)
    outbox.send(b"value")
    stage.until(lambda: any(link.tries for link in links))
    dead, survivor = sorted(links, key=lambda link: not link.tries)
    assert stage.segments == 1
    dead.host.retire()
    (target,) = stage.targets()
    assert target.fetch(topic, 0)["high_watermark"] == 0
    stage.end_leases(survivor.host)
    survivor.is_cut = False
    assert outbox.flush() == [0]
    assert stage.read(topic, UNCOMMITTED).values == [b"value"]
    assert collect(stage, survivor.host) == 1
    assert stage.segments == 1


@pytest.mark.slow
def test_a_fetch_that_meets_a_collected_object(stage: Stage) -> None:
    """S14, S19: the fetch is planned again, and its client gets the same records from the merged object."""
    topic = stage.create_topic()
    values = [b"value %d" % number for number in range(6)]
    one, reader = stage.targets()
    send(one, topic, *values)
    hold = stage.store.hold("get", of=stage.agents[1])
    answer = reader.later(lambda each: each.fetch(topic, 0))
    hold.wait_until_reached()
    housekeeping = housekeeping_of(stage)
    assert stage.run(housekeeping.merger.run_once(), stage.agents[0])
    stage.advance(GRACE_SECONDS)
    assert stage.run(housekeeping.collector.run_once(), stage.agents[0]).replaced == 6
    hold.release()
    got = answer.result()
    assert got["error_code"] == 0
    assert all(value in got["records"] for value in values)
    assert stage.read(topic).values == values


@pytest.mark.slow
def test_a_fetch_that_meets_records_deleted_meanwhile(stage: Stage) -> None:
    """S7: the client learns of the deletion immediately or on its next fetch, and never gets wrong bytes."""
    topic = stage.create_topic()
    one, reader = stage.targets()
    send(one, topic, b"deleted")
    hold = stage.store.hold("get", of=stage.agents[1])
    answer = reader.later(lambda each: each.fetch(topic, 0))
    hold.wait_until_reached()
    delete_first = {"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}
    one.call("delete_records", 2, topics=[delete_first], timeout_ms=5000)
    stage.advance(GRACE_SECONDS)
    collector = housekeeping_of(stage).collector
    assert stage.run(collector.run_once(), stage.agents[0]).replaced == 1
    hold.release()
    got = answer.result()
    assert error_name(got["error_code"]) in ("OFFSET_OUT_OF_RANGE", "KAFKA_STORAGE_ERROR")
    assert not got["records"]
    assert error_name(reader.fetch(topic, 0)["error_code"]) == "OFFSET_OUT_OF_RANGE"
    assert reader.fetch(topic, 1)["error_code"] == 0


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_topic_deleted_and_made_again_with_records_in_flight(
    stage: Stage, is_transactional: bool
) -> None:
    """S6: records for the old topic never enter the new one, and their outcome does not affect it."""
    one, two = stage.targets()
    topic, other = one.topic(retention_ms=-1), one.topic(retention_ms=-1)
    who = one.transactional() if is_transactional else one.idempotent()
    data = batch([b"old"], producer_id=who.id, producer_epoch=who.epoch, base_sequence=0)
    if is_transactional:
        assert one.add_partitions(who, topic) == "NONE"
        assert one.add_partitions(who, other) == "NONE"
        data = one.txn_batch(who, 0, b"old")
    hold = stage.store.hold("put")
    late = one.later(lambda each: each.verdict(topic, data, transactional_id=who.transactional_id))
    hold.wait_until_reached()
    two.call("delete_topics", 5, topic_names=[topic], timeout_ms=5000)
    stage.create_topic(topic)
    hold.release()
    assert late.result() in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
    for t in (one, two):
        row = t.fetch(topic, 0)
        assert (row["error_code"], row["high_watermark"], row["last_stable_offset"]) == (0, 0, 0)
    if is_transactional:
        assert two.txn_produce(who, topic, 0) == "TRANSACTION_ABORTABLE", "it was never added"
        assert two.txn_produce(who, other, 0, b"kept") == "NONE"
        assert one.end(who, True) == "NONE"
        assert stage.read(other).values == [b"kept"]
    send(one, topic, b"new")
    assert stage.read(topic).records == [(0, b"new")]


def test_an_agent_that_has_not_heard_does_not_reset_a_client(stage: Stage) -> None:
    """S7: an offset beyond what an agent knows is OFFSET_OUT_OF_RANGE only after a confirming read."""
    topic = stage.create_topic()
    ahead, behind = stage.targets()
    assert behind.fetch(topic, 0)["high_watermark"] == 0
    delayed = Delayed(stage, stage.agents[1])
    assert ahead.verdict(topic, batch([b"a", b"b"])) == "NONE"
    another = stage.agents[1].target()
    answers = [
        behind.later(lambda each: each.fetch(topic, 2)),
        another.later(lambda each: each.list_offset(topic, -1)),
    ]
    delayed.wait_for_reply()  # it asks the control plane
    assert not any(answer.is_done for answer in answers)
    delayed.release()
    fetched, listed = (answer.result() for answer in answers)
    assert (fetched["error_code"], fetched["high_watermark"]) == (0, 2)
    assert listed["offset"] == 2
    assert error_name(behind.fetch(topic, 3)["error_code"]) == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_new_consumer_at_another_agent_finds_what_was_just_acknowledged(
    stage: Stage, is_transactional: bool
) -> None:
    """S7: the consumer finds a record or the outcome of a transaction that this agent has not yet learned about."""
    topic = stage.create_topic()
    ahead, behind = stage.targets()
    who = ahead.transactional()
    if is_transactional:
        ahead.add_partitions(who, topic)
        assert ahead.txn_produce(who, topic, 0) == "NONE"
    stage.until(lambda: behind.fetch(topic, 0)["high_watermark"] == int(is_transactional))
    delayed = Delayed(stage, stage.agents[1])
    done = ahead.end(who, True) if is_transactional else ahead.verdict(topic, batch())
    assert done == "NONE"
    consumer = stage.agents[1].target()
    answer = consumer.later(
        lambda each: each.fetch(topic, 0, isolation=1, max_wait_ms=1, min_bytes=1)
    )
    delayed.wait_for_reply()  # it asks the control plane
    assert not answer.is_done
    delayed.release()
    fetched = answer.result()
    assert fetched["records"]
    assert (fetched["error_code"], fetched["last_stable_offset"]) == (0, 1)


@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.LOST_REPLY])
@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_failed_flush_leaves_no_gap(stage: Stage, kind: FaultKind, is_fresh: bool) -> None:
    """S12: later batches of its producer fail with it, are resent, and keep their order."""
    topic, store = stage.create_topic(), stage.store
    outbox = Outbox(stage, topic)
    values = [b"value %d" % number for number in range(40)]
    if not is_fresh:
        outbox.send(values.pop(0))
        outbox.flush()
    count = len(values) + (not is_fresh)
    for part in range(4):
        hold = stage.store.hold("put")
        store.fail(Fault("put", kind))
        outbox.send(*values[part * 10 : part * 10 + 10])
        hold.wait_until_reached()
        stage.advance(0.05)  # so that something was sent meanwhile
        hold.release()
        stage.advance(0.05)  # so that the next fault does not affect what follows this one
    assert outbox.flush() == list(range(count))
    assert stage.read(topic).values[-len(values) :] == values


def test_what_comes_behind_a_failed_batch_waits_for_it(stage: Stage) -> None:
    """S12: this includes batches from a producer without state that were on the wire when the failure was reported
    (S10).
    """
    topic, store = stage.create_topic(), stage.store
    one = stage.agents[0].target()
    who = one.idempotent()

    def sent(sequence: int) -> str:
        data = batch(
            [b"value %d" % sequence],
            producer_id=who.id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
        )
        return one.verdict(topic, data)

    store.fail(Fault("put", FaultKind.ERROR))
    assert sent(0) == "KAFKA_STORAGE_ERROR"
    assert sent(1) == "NOT_LEADER_OR_FOLLOWER"
    assert sent(2) == "NOT_LEADER_OR_FOLLOWER"
    assert [sent(number) for number in range(3)] == ["NONE"] * 3
