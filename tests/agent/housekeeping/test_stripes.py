"""A merge reads adjacent data in an object with one request, whichever partitions it belongs to (ADR 83)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from lacuna.agent.housekeeping.rewriting import FailedError, Rewriting
from lacuna.agent.produce.flight import Flight
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.objects import ObjectNotFoundError, ObjectStoreError
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import Reads

CLUSTER = "x" * 22
#: Two partitions whose extents alternate in two objects.
GROUPS = [
    [Piece(1, sequence, position, 10, 0, 1, 0) for sequence in (1, 2) for position in positions]
    for positions in ((0, 20), (10, 30))
]


class CountingStore(MemoryStore):
    """Counts reads, and fails the one with a given index."""

    def __init__(self, failing: int = -1) -> None:
        super().__init__()
        self.reads = 0
        self.failing = failing

    def get_into(self, reads: Any, buffer: Any) -> list[ObjectStoreError | None]:
        assert isinstance(reads, Reads)
        self.reads += len(reads.keys)
        outcomes = super().get_into(reads, buffer)
        if self.failing >= 0:
            outcomes[self.failing] = ObjectNotFoundError(reads.keys[self.failing])
        return outcomes


def rewriting(store: CountingStore) -> Rewriting:
    lease: Any = SimpleNamespace(cluster_id=CLUSTER)
    found = Rewriting(SimpleNamespace(), store, lease, ThreadPoolExecutor(1))
    for sequence in (1, 2):
        content = b"".join(bytes([16 * sequence + each]) * 10 for each in range(4))
        store.put(found.key_of(Piece(1, sequence, 0, 10, 0, 1, 0)), [content])
    return found


def test_groups_share_reads() -> None:
    store = CountingStore()
    groups, bytes_read = rewriting(store).load_all(GROUPS)
    assert (store.reads, bytes_read) == (2, 80)
    contents = [[live.data[0] for live in group] for group in groups if isinstance(group, list)]
    assert contents == [[16, 18, 32, 34], [17, 19, 33, 35]]


def test_a_failed_read_costs_what_it_has_only() -> None:
    store = CountingStore(failing=1)
    # The last piece is too far away to share a read.
    store.read_gap = 5
    near, far = Piece(1, 1, 0, 10, 0, 1, 0), Piece(1, 1, 30, 10, 0, 1, 0)
    (whole, failed), bytes_read = rewriting(store).load_all([[near], [far]])
    assert isinstance(whole, list)
    assert isinstance(failed, FailedError)
    assert list(failed.reasons) == [(1, 1)]
    assert bytes_read == 10


async def test_a_flush_has_its_partitions_in_the_order_of_keys() -> None:
    loop = asyncio.get_running_loop()
    keys = [(b"b" * 16, 1), (b"a" * 16, 7), (b"b" * 16, 0), (b"a" * 16, 2)]
    batches: Any = [SimpleNamespace(key=key, producer_id=-1, flags=0, part=b"x") for key in keys]
    flight = Flight(batches, None, loop.create_future(), loop.create_future())
    found = [(each.topic_id, each.partition) for each in flight.group()]
    assert found == sorted(keys) == list(flight.slices)
