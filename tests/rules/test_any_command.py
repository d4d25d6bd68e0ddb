"""Tests that no command stops the control plane, as an exception out of handle would (S1, S2).

Rejected commands change nothing, the records of the others replay, and the state survives a snapshot.
"""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.decision import Context
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.state.front import check_front
from lacuna.controlplane.state.partition import deleted_delta
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from tests.agent.harness import NoFeed
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.script import run
from tests.rules.arbitrary import Arbitrary

HISTORY = """
topic x 2
topic y 1
init t
init u
add t 1/0 x-0 x-1
put x-0 x3 1/0@0 txn
put x-0 x2
put x-1 x2 1/0@0 txn
end1 t 1/0 abort
put y-0 x4 2/0@0 tv2
put x-0 x1
delete-records x-0 1
"""


def _cluster() -> Cluster:
    cluster = Cluster(agents=2)
    run(HISTORY, cluster)
    return cluster


#: A moment, the timeouts of transactions, sessions and leases, the hour of windows, all expirations.
JUMPS_MS = (0, 700, 700, 1_000, 11_000, 40_000, 3_600_000, 8 * 86_400_000)


class _Watcher:
    """The state of a control plane's client: every partition that ever existed, by deltas alone."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.cluster = ClusterView(NoFeed())
        self.cluster.apply(state.cluster_snapshot())
        self.views: dict[PartitionKey, PartitionView] = {}
        self.follow()

    def follow(self) -> None:
        """Apply the changes, and watch new partitions."""
        for delta in self.state.take_changes():
            if isinstance(delta, ClusterDelta):
                self.cluster.apply(delta)
            else:
                view = self.views[key_of(delta.partition)]
                before = _bounds(view)
                assert view.apply(delta), "no version was missed"
                went_back = any(new < old for new, old in zip(_bounds(view), before, strict=True))
                assert view.is_deleted or not went_back, "S3: no bound ever moves back"
                assert view.is_deleted or sorted(_bounds(view)) == list(_bounds(view))
        for key in self.state.partitions.keys() - self.views.keys():
            self.views[key] = PartitionView(*key, NoFeed())
            self.views[key].apply(self.state.watch(key))

    def check(self) -> None:
        """S3: the result of deltas equals a new watcher's state."""
        for key, view in self.views.items():
            fresh = PartitionView(*key, NoFeed())
            found = self.state.partitions.get(key)
            fresh.apply(deleted_delta(key) if found is None else found.snapshot_delta())
            assert _seen(view) == _seen(fresh)
        assert set(self.cluster.topics_by_id) == set(self.state.topics)
        assert set(self.cluster.topics_by_name) == set(self.state.topics_by_name)
        assert list(self.cluster.agents) == self.state.live_agents()


def _bounds(view: PartitionView) -> tuple[int, int, int]:
    return view.log_start_offset, view.last_stable_offset, view.high_watermark


def _seen(view: PartitionView) -> object:
    if view.is_deleted:
        return "deleted"
    return (
        view.version,
        view.log_start_offset,
        view.last_stable_offset,
        view.high_watermark,
        view.vacated_to,
        view.extents.slice(0, len(view.extents)),
        list(zip(view.dead.firsts, view.dead.ends, strict=True)),
    )


def _check_sums(state: State) -> None:
    """Check values that are counted twice: references to objects, bytes, and open transactions by partition."""
    references: Counter[tuple[int, int]] = Counter()
    for partition in state.partitions.values():
        extents = partition.extents
        references.update(zip(extents.lease_ids, extents.sequences, strict=True))
        edges = [
            edge
            for row in zip(extents.base_offsets, extents.next_offsets, strict=True)
            for edge in row
        ]
        assert edges == sorted(edges)
        assert not edges or edges[-1] <= partition.high_watermark
        assert partition.size_bytes == sum(extents.sizes)
        check_front(partition)
        for producer_id in partition.ongoing:
            found = state.producers[producer_id]
            assert found.is_ongoing
            assert partition.key in found.partitions
    waiting = state.segments.releasing
    references.update(zip(waiting.lease_ids, waiting.sequences, strict=True))
    live = {row.key: row.live_extents for row in state.segments if row.live_extents}
    assert references == Counter(live)
    assert {row.key for row in state.segments} == live.keys() | state.segments.replaced.keys()


def _replayed(journal: list[bytes]) -> State:
    state = machine.State()
    for data in journal:
        machine.replay(state, JournalRecord.FromString(data))
    return state


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64), length=st.integers(1, 80))
def test_s2_any_commands_are_decided(seed: int, length: int) -> None:
    """Each command gets a reply or a parked token, with records that replay. S3: watchers can follow."""
    cluster = _cluster()
    state = cluster.state
    watcher = _Watcher(state)
    draw = Arbitrary(Random(seed), state)
    for token in range(1, length):
        command = draw.command()
        before = machine.snapshot(state)
        context = Context(now_ms=cluster.now_ms, new_id=cluster.new_id, token=token)
        decision = machine.handle(state, command, context)
        assert machine.snapshot(state) == before, "deciding changes nothing durable"
        if decision.reply is not None:
            assert decision.reply.command_id == command.command_id
            if decision.reply.HasField("failure"):
                assert decision.reply.failure.error_code == ErrorCode.INVALID_REQUEST
                assert decision.reply.failure.message
                assert not decision.records
        cluster.decide(decision)
        if token % 9 == 0:
            cluster.tick(after_ms=draw.random.choice(JUMPS_MS))
        watcher.follow()
    watcher.check()
    _check_sums(state)
    after = machine.snapshot(state)
    assert machine.snapshot(_replayed(cluster.journal)) == after
    assert machine.snapshot(machine.restore((after,))) == after
