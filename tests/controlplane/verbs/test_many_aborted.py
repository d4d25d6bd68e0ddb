"""Tests that the size of compacted metadata does not depend on the number of aborted transactions (S14)."""

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.decision import Decision
from lacuna.controlplane.state.settings import HOUR_MS
from lacuna.controlplane.v1.cluster_pb2 import RenewLease
from lacuna.controlplane.v1.log_pb2 import ConfirmCollection
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from lacuna.controlplane.v1.transactions_pb2 import EndTxn, InitProducerId
from tests.controlplane.verbs.cluster import (
    ADDS_PARTITION,
    TRANSACTIONAL,
    Unchecked,
    add_batch,
    collection,
)
from tests.controlplane.verbs.compacting import plan, swap, swap_of

PRODUCERS = 50
LONG = (pytest.mark.slow, pytest.mark.timeout(600))  # the time under coverage
#: Numbers that go on are longer: of transactions, of segments, of a version.
SPARE_BYTES = 200


class Quick(Unchecked):
    """Keeps no journal."""

    def decide(self, decision: Decision) -> Decision:
        for record in decision.records:
            machine.replay(self.state, record)
        return decision


def _cluster() -> Quick:
    cluster = Quick()
    cluster.create("a")
    for number in range(1, PRODUCERS + 1):
        given = InitProducerId(
            transactional_id=f"t{number}", has_transactional_id=True, transaction_timeout_ms=60_000
        )
        assert cluster.do("init_producer_id", given).producer_id == number
    return cluster


def _transact(cluster: Quick, rounds: int, first: int, *, committed: bool) -> None:
    """Run this many ten-record transactions for each producer. All producers share one segment per round."""
    for number in range(first, first + rounds):
        given = cluster.slice("a-0")
        for producer_id in range(1, PRODUCERS + 1):
            flags = TRANSACTIONAL | ADDS_PARTITION
            producer = (producer_id, 0)
            add_batch(given, count=10, producer=producer, sequence=10 * number, flags=flags)
        assert not any(cluster.commit(given).slices[0].error_codes)
        for producer_id in range(1, PRODUCERS + 1):
            end = EndTxn(transactional_id=f"t{producer_id}", producer_id=producer_id)
            end.committed = committed
            assert cluster.do("end_txn", end).error_code == 0


def _compact(cluster: Quick) -> int:
    """Compact until nothing is worth it, then collect the replaced objects. Return the number of extents removed."""
    gone = 0
    while ranges := plan(cluster, "a-0", small_bytes=1 << 20).ranges:
        before = len(cluster.found("a-0").extents)
        assert swap(cluster, swap_of(cluster, *ranges)) == ["NONE"]
        gone += before - len(cluster.found("a-0").extents)
    for _ in range(
        26
    ):  # producers that wrote nothing for a day are forgotten, whatever became of what they wrote
        cluster.now_ms += HOUR_MS
        cluster.do("renew_lease", RenewLease(lease_id=cluster.lease_id))
        cluster.tick()
    while planned := collection(cluster, 10_000).segments:
        cluster.do("confirm_collection", ConfirmCollection(segments=planned))
    return gone


def _sizes(cluster: Quick) -> dict[str, int]:
    """Return the size in bytes of the whole state and of each part that could contain aborted transactions."""
    data = machine.snapshot(cluster.state)
    message = StateSnapshot.FromString(data)
    return {
        "state": len(data),
        "topics": sum(topic.ByteSize() for topic in message.topics),
        "segments": message.segments.ByteSize(),
        "transactional ids": sum(each.ByteSize() for each in message.transactional_ids),
    }


@pytest.mark.slow
@pytest.mark.parametrize("aborted", [5_000, pytest.param(200_000, marks=LONG)])
def test_s14_aborted_transactions_leave_what_none_leave(aborted: int) -> None:
    none, many = _cluster(), _cluster()
    _transact(none, 35, 0, committed=True)
    _transact(many, 35, 0, committed=True)
    none.put("a-0", 10 * aborted)  # one batch, so that the offsets are of the same length
    _transact(many, aborted // PRODUCERS, 35, committed=False)
    _transact(none, 64, 35, committed=True)
    _transact(many, 64, 35 + aborted // PRODUCERS, committed=True)
    before = _sizes(many)
    assert before["state"] > 20 * aborted
    _compact(none)
    assert _compact(many) >= aborted
    found = many.found("a-0")
    assert (len(found.extents), len(found.dead)) == (1, 0)
    assert found.high_watermark == 10 * (aborted + 99 * PRODUCERS)
    assert len(many.state.segments) == len(none.state.segments) == 1
    after, without = _sizes(many), _sizes(none)
    sizes = f"{before}, compacted {after}; none aborted, compacted {without}"
    assert abs(after["state"] - without["state"]) < SPARE_BYTES, sizes
    assert abs(after["topics"] - without["topics"]) < 50
    assert abs(after["segments"] - without["segments"]) < 20
