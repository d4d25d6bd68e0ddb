"""Tests that clients' state in open transactions is bounded (docs/limits.md): partitions, groups, staged offsets."""

from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import state as state_module
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.settings import MOST_OF_TRANSACTION
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, TxnOffsetCommit
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn
from lacuna.controlplane.verbs import commits
from lacuna.controlplane.verbs.groups import committing
from tests.controlplane.verbs.cluster import (
    ADDS_PARTITION,
    TRANSACTIONAL,
    Cluster,
    add_batch,
    init_of,
)
from tests.forms import FORMS, compiled, interpreted

SLICES = "lacuna.controlplane.verbs.slices"
PARTITIONS = 40
MOST = 20_000
OFFSETS = 1 << 20
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["init", "add", "write", "write", "stage", "stage", "end", "time_out"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.integers(1, PARTITIONS),
    ),
    max_size=20,
)


@pytest.fixture(scope="module", params=FORMS)
def slices(request: pytest.FixtureRequest) -> ModuleType:
    return interpreted(SLICES) if request.param == "interpreted" else compiled(SLICES)


class Producers:
    """Transactional producers, each with a principal, in a cluster with low bounds on their state."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.state.groups.settings = GroupSettings(groups_max_bytes=OFFSETS)
        self.cluster.create("t", PARTITIONS)
        self.cluster.create("u", PARTITIONS)

    def init(self, name: str, _: int = 0) -> None:
        self.cluster.principal = "User:alice" if name in "ab" else "User:bob"
        self.cluster.do("init_producer_id", init_of(name, 1_000))

    def producer(self, name: str) -> tuple[int, int]:
        if name not in self.cluster.state.transactional_ids:
            self.init(name)
        found = self.cluster.state.transactional_ids.get(name)
        # There may be no room for it.
        return (1 << 40, 0) if found is None else (found.producer_id, found.producer_epoch)

    def named(self, name: str) -> dict[str, Any]:
        producer_id, epoch = self.producer(name)
        return {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}

    def add(self, name: str, count: int) -> set[int]:
        """Add partitions of one topic to the transaction. Return the error codes."""
        command = AddPartitionsToTxn(
            **self.named(name),
            partitions=[self.cluster.partition(f"t-{number}") for number in range(count)],
        )
        return set(self.cluster.do("add_partitions_to_txn", command).error_codes)

    def write(self, name: str, count: int) -> set[int]:
        """Write to partitions of the other topic, which adds them to the transaction. Return the error codes."""
        given = []
        for number in range(count):
            each = self.cluster.slice(f"u-{number}")
            flags = TRANSACTIONAL | ADDS_PARTITION
            add_batch(each, producer=self.producer(name), sequence=0, flags=flags)
            given.append(each)
        return {each.error_codes[0] for each in self.cluster.commit(*given).slices}

    def stage(self, name: str, count: int) -> set[int]:
        """Stage offsets in a group that all producers share. Return the error codes."""
        command = TxnOffsetCommit(
            **self.named(name),
            group_id="g",
            generation_id=-1,
            adds_group=True,
            offsets=[
                CommittedOffset(
                    partition=self.cluster.partition(f"t-{number}"), metadata="m" * 4000
                )
                for number in range(count)
            ],
        )
        return set(self.cluster.do("txn_offset_commit", command).error_codes)

    def end(self, name: str, count: int = 0) -> None:
        command = EndTxn(
            **self.named(name),
            committed=bool(count % 2),
            bumps_epoch=True,
        )
        self.cluster.do("end_txn", command)

    def time_out(self, *_: Any) -> None:
        self.cluster.tick(1_001)

    def check(self) -> None:
        state = self.cluster.state
        assert state.id_owners.size <= MOST
        assert all(held <= MOST // 2 for held in state.id_owners.held.values())
        # A group's own bytes are counted afterwards.
        assert state.groups.kept_bytes <= OFFSETS + 4096


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_open_transactions_keep_no_more_than_they_may(steps: list[tuple[str, str, int]]) -> None:
    producers = Producers()
    with mock.patch.object(state_module, "MOST_TRANSACTIONAL_ID_BYTES", MOST):
        for step, name, count in steps:
            getattr(producers, step)(name, count)
            producers.check()
        producers.cluster.check()
        restored = machine.restore((machine.snapshot(producers.cluster.state),))
        for held in ("of", "held", "size"):
            now = getattr(producers.cluster.state.id_owners, held)
            assert getattr(restored.id_owners, held) == now
        for name in "abcd":
            producers.end(name)
        assert producers.cluster.state.id_owners.size <= 4 * 1025


def test_partitions_beyond_the_share_are_refused_and_others_go_on(
    slices: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "decide_slices", slices.decide_slices)
    monkeypatch.setattr(commits, "replay_slices", slices.replay_slices)
    monkeypatch.setattr(state_module, "MOST_TRANSACTIONAL_ID_BYTES", MOST)
    producers = Producers()
    producers.init("a")
    producers.init("c")
    assert producers.add("a", 30) == {0}
    assert producers.add("a", 31) == {0}
    assert producers.add("a", 40) == {ErrorCode.POLICY_VIOLATION}
    assert producers.write("a", 3) == {0}
    assert producers.write("a", 10) == {0, ErrorCode.POLICY_VIOLATION}
    assert producers.write("a", 4) == {0}, "they are in the transaction already"
    assert producers.write("c", 30) == {0}
    producers.check()
    producers.cluster.check()
    producers.end("a")
    assert producers.write("a", 30) == {0}


def test_staged_offsets_count_beside_the_committed_ones() -> None:
    """Staged offsets that would replace others used to take up no room, however many transactions staged them."""
    producers = Producers()
    with mock.patch.object(state_module, "MOST_TRANSACTIONAL_ID_BYTES", MOST):
        assert producers.stage("a", 40) == {0}
        producers.end("a", 1)
        codes = [producers.stage(name, 40) for name in "abcd"]
    assert codes[0] == {0}
    assert codes[-1] == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    producers.check()
    assert producers.stage("a", 40) == {0}, "what is staged can be replaced"


def test_one_transaction_ends_in_a_step_of_bounded_length() -> None:
    producers = Producers()
    state = producers.cluster.state
    producers.init("a")
    found = state.transactional_ids["a"]
    assert state.has_room_for_partitions(found, MOST_OF_TRANSACTION)
    assert not state.has_room_for_partitions(found, MOST_OF_TRANSACTION + 1)
    with mock.patch.object(committing, "MOST_OF_TRANSACTION", 30):
        assert producers.stage("a", 30) == {0}
        assert producers.stage("a", 31) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
