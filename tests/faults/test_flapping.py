"""Tests sessions with the control plane that flap while producers switch agents (S10, S12).

librdkafka continues through a partition's new leader while it has batches in flight through the old one. A gap that is
reported after all earlier batches have been acknowledged is fatal: OUT_OF_ORDER_SEQUENCE_NUMBER.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lacuna.agent.produce.settings import ProduceSettings
from tests.clients.batch import batch
from tests.clients.probing import Producer, Target
from tests.simulation.stage import PARTS, CommitLink, Later, Stage, StagedTarget, staged

AGAIN = "NOT_LEADER_OR_FOLLOWER"
TRANSACTIONAL = 0x10
TRANSACTIONAL_ID = "copy"
FOR_GOOD = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class Two:
    """Two agents that both have batches of one producer in flight, and a third that may leave."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.old, self.new = (CommitLink(stage, agent) for agent in stage.agents[:2])
        self.one, self.two = (agent.target() for agent in stage.agents[:2])
        self.topic = self.one.topic()
        self.who = self.one.idempotent()

    def records(self, sequence: int, who: Producer | None = None) -> bytes:
        """Return one record whose value is its sequence number."""
        who = who or self.who
        return batch(
            [b"%d" % sequence],
            producer_id=who.id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL if who.transactional_id else 0,
        )

    def send(self, target: Target, sequence: int, who: Producer | None = None) -> str:
        """Return the agent's answer to a batch with this sequence."""
        records = self.records(sequence, who)
        if who is None or who.transactional_id is None:
            return target.verdict(self.topic, records)
        return target.verdict(
            self.topic, records, version=12, transactional_id=who.transactional_id
        )

    def send_later(
        self, target: StagedTarget, link: CommitLink, sequence: int, who: Producer | None = None
    ) -> Later[str]:
        """Do the same in the background. Return once the commit has been attempted."""
        link.forget_tries()
        sent = target.later(lambda each: self.send(each, sequence, who))
        link.wait_for_try()
        return sent

    def begin(self) -> Producer:
        """Start a client with this test's transactional id."""
        return self._coordinator().transactional(TRANSACTIONAL_ID)

    def finish(self, who: Producer) -> None:
        """Commit its transaction."""
        assert self._coordinator().end(who, True) == "NONE"

    def _coordinator(self) -> Target:
        (found,) = self.two.call(
            "find_coordinator", 4, key_type=1, coordinator_keys=[TRANSACTIONAL_ID]
        )["coordinators"]
        (agent,) = (each for each in self.stage.agents if each.name == found["host"])
        return agent.target()

    def lose_the_third(self) -> None:
        """Move the clients of a departed agent to the other two."""
        host = self.stage.agents[2]
        lease = host.running.context.lease
        self.stage.run(lease.stop_renewing(), host)
        self.stage.run(lease.release(1.0), host)

    @property
    def values(self) -> list[bytes]:
        """Return the values that a reader finds."""
        return self.stage.read(self.topic).values


@pytest.fixture
def two() -> Iterator[Two]:
    """Yield agents in their initial state."""
    for stage in staged(agents=3):
        yield Two(stage)


@pytest.fixture
def impatient() -> Iterator[Two]:
    """The same agents, with a short limit for retrying commits."""
    parts = replace(PARTS, produce=ProduceSettings(commit_timeout_ms=500, hot_bytes=0))
    for stage in staged(agents=3, parts=parts):
        yield Two(stage)


def test_a_gap_is_not_told_after_what_was_missing(two: Two) -> None:
    """S10, S12: the reply with the gap was lost and arrives after the gap has been filled."""
    assert two.send(two.one, 0) == "NONE"
    two.old.is_cut = True
    two.new.lose_replies = 1_000
    missing = two.send_later(two.one, two.old, 1)
    behind = two.send_later(two.two, two.new, 2)
    two.new.wait_for_try()
    two.old.is_cut = False
    assert missing.result() == "NONE"
    two.new.lose_replies = 0
    assert behind.result() == AGAIN
    assert two.send(two.two, 2) == "NONE"
    assert two.values == [b"0", b"1", b"2"]


def test_what_comes_ahead_of_the_first_batches_does_not_get_in(two: Two) -> None:
    """S10, S12: the control plane accepts any first sequence, except from a client that switched from another agent."""
    two.lose_the_third()
    two.old.is_cut = True
    missing = two.send_later(two.one, two.old, 0)
    assert two.send(two.two, 1) == AGAIN
    two.old.is_cut = False
    assert missing.result() == "NONE"
    assert two.send(two.two, 1) == "NONE"
    assert two.values == [b"0", b"1"]


@pytest.mark.parametrize("sent", [0, 1], ids=["no batch before", "one before"])
@pytest.mark.parametrize("is_new", [True, False], ids=["joined", "there before"])
def test_no_gap_is_told_once_an_agent_has_joined(two: Two, sent: int, is_new: bool) -> None:
    """S10, S12: the agent takes over clients from the others, some of which learn of it before the rest do."""
    for sequence in range(sent):
        assert two.send(two.one, sequence) == "NONE"
    joined = two.stage.join()
    target = joined.target() if is_new else two.two
    two.old.is_cut = True
    missing = two.send_later(two.one, two.old, sent)
    for _ in range(3):
        assert two.send(target, sent + 1) == AGAIN, "whoever does not wait for the missing one"
    two.old.is_cut = False
    assert missing.result() == "NONE"
    assert two.send(target, sent + 1) == "NONE"
    assert two.values == [b"%d" % sequence for sequence in range(sent + 2)]


LENGTH = 4


@pytest.mark.parametrize("is_lost_behind", [False, True], ids=["", "reply behind it lost"])
@pytest.mark.parametrize("is_decided", [True, False], ids=["reply lost", "command lost"])
@pytest.mark.parametrize("lost_at", range(LENGTH - 1))
def test_wherever_a_commit_is_lost_no_gap_is_told(
    two: Two, lost_at: int, is_decided: bool, is_lost_behind: bool
) -> None:
    """S10, S12: later batches through another agent are accepted, or resent once it is known that one was lost."""
    two.lose_the_third()
    for sequence in range(lost_at):
        assert two.send(two.one, sequence) == "NONE"
    two.old.is_cut, two.old.lose_replies = not is_decided, 1_000
    two.new.lose_replies = int(is_lost_behind)
    lost = two.send_later(two.one, two.old, lost_at)
    two.old.wait_for_try()  # again: the first attempt has ended
    told = two.send(two.two, lost_at + 1)
    two.old.is_cut, two.old.lose_replies = False, 0
    assert lost.result() == "NONE"
    assert told == ("NONE" if is_decided else AGAIN)
    for sequence in range(lost_at + 1 if told == AGAIN else lost_at + 2, LENGTH):
        assert two.send(two.two, sequence) == "NONE"
    assert two.values == [b"%d" % sequence for sequence in range(LENGTH)]


@pytest.mark.parametrize("is_decided", [True, False], ids=["reply lost", "command lost"])
@pytest.mark.parametrize("goes_on", ["at the same agent", "at another"])
def test_what_a_killed_client_left_is_no_gap_of_its_successor(
    two: Two, is_decided: bool, goes_on: str
) -> None:
    """S4, S10: the next epoch begins at 0, independently of the previous epoch's last batches."""
    target, link = (two.one, two.old) if goes_on == "at the same agent" else (two.two, two.new)
    killed = two.begin()
    assert two.send(two.one, 0, killed) == "NONE"
    two.old.is_cut, two.old.lose_replies = not is_decided, 1_000
    late = two.send_later(two.stage.agents[0].target(), two.old, 1, killed)
    two.old.wait_for_try()  # again: the first attempt has ended
    successor = two.begin()
    assert (successor.id, successor.epoch > killed.epoch) == (killed.id, True)
    if link is two.new:
        link.lose_replies = 1
        assert [two.send(target, sequence, successor) for sequence in (0, 1)] == ["NONE"] * 2
        two.old.is_cut, two.old.lose_replies = False, 0
    else:
        two.old.is_cut, two.old.lose_replies = False, 1
        assert [two.send(target, sequence, successor) for sequence in (0, 1)] == ["NONE"] * 2
    assert late.result() == ("NONE" if is_decided else "INVALID_PRODUCER_EPOCH")
    assert two.send(target, 2, successor) == "NONE"
    two.finish(successor)
    assert two.values == [b"0", b"1", b"2"]


def sent_until_told(two: Two, sequence: int, who: Producer | None = None) -> str:
    """Return the second agent's final answer to a client that retries."""
    told = [AGAIN]
    while told[-1] == AGAIN:
        told.append(two.send(two.two, sequence, who))
    assert len(told) > 2, "there was time for what is in flight"
    return told[-1]


def test_who_sends_a_gap_for_long_hears_that_it_is_one(impatient: Two) -> None:
    """S10: once all commits have been abandoned, a remaining gap is the client's error."""
    two = impatient
    assert two.send(two.one, 0) == "NONE"
    two.lose_the_third()
    assert sent_until_told(two, 5) == FOR_GOOD
    assert two.send(two.two, 1) == "NONE"
    assert two.send(two.two, 6) == FOR_GOOD, "it has gone on here, so nothing of it is elsewhere"


def test_who_sends_its_first_sequence_for_long_gets_in(impatient: Two) -> None:
    """S10: a producer with expired state may begin at any sequence."""
    two = impatient
    two.lose_the_third()
    other = two.two.idempotent()
    assert sent_until_told(two, 7, other) == "NONE"
    assert two.send(two.two, 8, other) == "NONE"


def test_who_was_idle_for_a_day_goes_on_soon(two: Two) -> None:
    """S12: no batches are in flight for a producer id that the control plane has forgotten."""
    two.lose_the_third()
    ages = two.stage.control.state().id_ages
    ages.hours[:] = array("q", (hour - 26 for hour in ages.hours))
    assert two.send(two.two, 7) == AGAIN
    began = two.stage.loop.time()
    while two.send(two.two, 7) == AGAIN:
        two.stage.advance(0.1)
    assert two.stage.loop.time() - began < 2.0
    assert two.values == [b"7"]


def test_nothing_is_held_up_where_no_agent_has_gone(two: Two) -> None:
    """S10: a gap is reported immediately, and a first sequence is accepted."""
    assert two.send(two.one, 0) == "NONE"
    assert two.send(two.two, 5) == FOR_GOOD
    assert two.send(two.two, 7, two.two.idempotent()) == "NONE"
