"""No command stops the control plane, whoever sends it: an exception out of handle would (S1, S2).

Refused ones change nothing, the records of the others replay, and the state survives a snapshot.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane import machine
from controlplane.decision import Context
from controlplane.errors import ErrorCode
from controlplane.state.state import State
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.journal_pb2 import JournalRecord
from tests.controlplane.state.cluster import Cluster
from tests.controlplane.state.script import run
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
    for key in list(cluster.state.partitions):
        machine.watch(cluster.state, *key)
    return cluster


def _replayed(journal: list[bytes]) -> State:
    state = machine.new_state()
    for data in journal:
        machine.replay(state, JournalRecord.FromString(data))
    return state


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64), length=st.integers(1, 80))
def test_s2_any_commands_are_decided(seed: int, length: int) -> None:
    """Decided means: a reply or a parked token, and records that replay."""
    cluster = _cluster()
    state = cluster.state
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
            cluster.now_ms += 700
            cluster.tick()
    after = machine.snapshot(state)
    assert machine.snapshot(_replayed(cluster.journal)) == after
    assert machine.snapshot(machine.restore(after)) == after
    for topic_id, index in state.partitions:
        partition = TopicPartition(topic_id=topic_id, partition=index)
        assert state.watch(partition).high_watermark >= 0
