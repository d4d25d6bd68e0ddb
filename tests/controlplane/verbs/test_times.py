"""Tests a time that is in doubt, and one that is set by an operator (ADR 53)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from google.protobuf.message import Message

from lacuna.controlplane import machine
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat, DeleteOffsets
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, JoinGroup, OffsetCommit
from lacuna.controlplane.v1.log_pb2 import PinReads, PlanCollection, PlanCompaction
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from lacuna.controlplane.verbs.groups import deadlines
from lacuna.controlplane.verbs.groups.consumer import finding
from tests.controlplane.verbs.cluster import Cluster
from tests.controlplane.verbs.script import run

DAY_MS = 86_400_000
#: Spans, of which the time is no part.
SPANS = {"duration_ms", "transaction_timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"}


def aged() -> Cluster:
    """Create records, idempotence windows, ids, offsets and an object, all of which expire by age."""
    cluster = run("""
        topic a 1 retention.ms=1000
        topic b 1
        init idle                              -> 1/0
        init x                                 -> 2/0
        put a-0 x1 lat=1000000                 -> 0
        put b-0 x1 2/0@0 tv2                   -> 0
        end2 x 2/0 commit                      -> 2/1
        delete-records b-0 1                   -> 1
    """)
    commit_offset(cluster, "a-0")
    cluster.now_ms += 30 * DAY_MS
    return cluster


def commit_offset(cluster: Cluster, partition: str) -> None:
    committed = CommittedOffset(partition=cluster.partition(partition), offset=1)
    cluster.do("offset_commit", OffsetCommit(group_id="g", generation_id=-1, offsets=[committed]))


def due(cluster: Cluster) -> tuple[list[str], int]:
    """Return the events in which a tick removes things by age, and the number of objects planned for deletion."""
    events = cluster.tick()
    lease_id = cluster.register()
    command = PlanCollection(lease_id=lease_id, max_segments=10)
    return events, len(cluster.do("plan_collection", command).segments)


def test_nothing_is_deleted_by_age_while_the_time_is_in_doubt() -> None:
    cluster = aged()
    cluster.tick()
    cluster.is_time_doubtful = True
    cluster.now_ms += COLLECTION_GRACE_MS
    assert due(cluster) == (["leases_ended"], 0)
    partition = TopicPartition(topic_id=cluster.state.topics_by_name["b"].topic_id)
    command = PlanCompaction(partitions=[partition], rewrites_all=True)
    assert not cluster.do("plan_compaction", command).ranges


def test_it_is_deleted_once_the_time_is_not_in_doubt_any_more() -> None:
    cluster = aged()
    cluster.is_time_doubtful = True
    cluster.tick()
    cluster.is_time_doubtful = False
    cluster.now_ms += COLLECTION_GRACE_MS
    cluster.tick()
    events, objects = due(cluster)
    assert objects == 1
    assert cluster.state.topics_by_name["a"].partitions[0].log_start_offset == 1
    assert not cluster.state.transactional_ids
    assert events == []


def late() -> Cluster:
    """Return a state in which everything happened 30 days in the future."""
    cluster = Cluster(agents=0)
    cluster.now_ms += 30 * DAY_MS
    cluster.register()
    run(
        """
        topic a 1
        topic gone 1
        init idle
        init x timeout=60000                   -> 2/0
        put a-0 x1 lat=1000000                 -> 0
        put a-0 x1 2/0@0 tv2                   -> 1
        end2 x 2/0 commit                      -> 2/1
        put a-0 x1 2/1@0 tv2                   -> 2
        put a-0 x1                             -> 3
        delete-records a-0 1                   -> 1
        """,
        cluster,
    )
    commit_offset(cluster, "a-0")
    commit_offset(cluster, "gone-0")
    run("delete-topic gone", cluster)
    return cluster


def times(message: Message) -> dict[str, int]:
    """Return the latest time of each kind in a message."""
    found: dict[str, int] = {}
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        for each in values:
            if isinstance(each, Message):
                for name, latest in times(each).items():
                    found[name] = max(found.get(name, latest), latest)
            elif field.name.endswith("_ms") and field.name not in SPANS:
                found[field.name] = max(found.get(field.name, each), each)
    return found


def test_nothing_is_later_than_the_time_that_was_set() -> None:
    cluster = late()
    cluster.do("pin_reads", PinReads(duration_ms=60_000))
    partition = TopicPartition(topic_id=cluster.state.topics_by_name["a"].topic_id)
    cluster.do("delete_offsets", DeleteOffsets(group_id="g", partitions=[partition]))
    future_ms, cluster.now_ms = cluster.now_ms, cluster.now_ms - 30 * DAY_MS
    cluster.decide(machine.set_time(cluster.now_ms))
    assert cluster.state.clock_ms == cluster.now_ms
    snapshot = StateSnapshot.FromString(machine.snapshot(cluster.state))
    latest = times(snapshot)
    assert latest.pop("ends_ms") == cluster.now_ms + 60_000
    assert latest.pop("settled_ms") <= cluster.now_ms + 1_000
    assert set(latest) >= {"last_used_ms", "last_update_ms", "start_time_ms", "replaced_ms"}
    assert max(latest.values()) <= cluster.now_ms < future_ms


def test_what_was_open_ends_in_its_time_after_the_time_was_set() -> None:
    cluster = late()
    cluster.now_ms -= 30 * DAY_MS
    cluster.decide(machine.set_time(cluster.now_ms))
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.tick() == []
    assert "transaction_ended" in cluster.tick(60_001)
    cluster.register()
    run("put a-0 x1 -> 4", cluster)


def test_a_time_that_is_set_forwards_moves_nothing_else() -> None:
    cluster = late()
    before = cluster.state.transactional_ids["x"].start_time_ms
    cluster.decide(machine.set_time(cluster.now_ms + DAY_MS))
    assert cluster.state.clock_ms == cluster.now_ms + DAY_MS
    assert cluster.state.transactional_ids["x"].start_time_ms == before


def test_a_pause_is_added_to_what_ends_by_silence() -> None:
    """A lease, a transaction, a member's session and a pin are each extended by the pause, and then end."""
    cluster = run("""
        topic a 1
        init x timeout=60000                   -> 1/0
        put a-0 x1 1/0@0 tv2                   -> 0
    """)
    join = JoinGroup(group_id="g", protocol_type="consumer", session_timeout_ms=10_000)
    join.rebalance_timeout_ms = 10_000
    join.protocols.add(name="range")
    cluster.reply("join_group", join)
    cluster.do("pin_reads", PinReads(duration_ms=20_000))
    assert cluster.tick() == []
    cluster.now_ms += 3_600_000
    paused = machine.pause(cluster.state, cluster.context(), 3_600_000)
    assert [each.WhichOneof("event") for each in cluster.decide(paused).records] == [
        "pin_prolonged"
    ]
    assert cluster.tick(8_999) == []
    assert cluster.tick(1) == ["leases_ended"]
    assert cluster.tick(999) == []
    assert cluster.state.groups.live.groups["g"].members
    assert cluster.tick(1) == ["group"]
    assert not cluster.state.groups.live.groups["g"].members
    assert cluster.tick(9_999) == []
    assert cluster.tick(1) == ["pins_ended"]
    assert cluster.tick(39_999) == []
    assert cluster.tick(1) == ["transaction_ended"]


def test_a_pause_moves_the_deadlines_of_no_group() -> None:
    """They are moved when a group is next used or due, so the pause costs the same with any number of groups."""
    cluster = Cluster()
    for number in range(20):
        join_both(cluster, number)
    cluster.tick()
    with counted() as moved:
        cluster.now_ms += 60_000
        cluster.decide(machine.pause(cluster.state, cluster.context(), 60_000))
        assert cluster.tick() == []
        assert not moved
        with (
            mock.patch.object(deadlines, "GROUPS_PER_TICK", 5),
            mock.patch.object(finding, "GROUPS_PER_TICK", 5),
        ):
            cluster.tick(50_000)
            assert len(moved) == 10
    groups = cluster.state.groups
    assert sum(not each.members for each in groups.live.groups.values()) == 5
    assert sum(not each.members for each in groups.consumers.values()) == 5


def test_what_is_heard_after_a_pause_counts_from_then() -> None:
    cluster = Cluster()
    join_both(cluster, 0)
    cluster.now_ms += 60_000
    cluster.decide(machine.pause(cluster.state, cluster.context(), 60_000))
    cluster.now_ms += 5_000
    join_both(cluster, 0)
    assert cluster.tick(4_999) == []
    assert cluster.tick(1) == ["group"], "the classic member was last heard before the pause"
    assert "group" not in cluster.tick(39_999)
    assert "group" in cluster.tick(1)


def join_both(cluster: Cluster, number: int) -> None:
    """Join a classic group with one member, and a consumer group with another."""
    join = JoinGroup(group_id=f"classic {number}", protocol_type="consumer", client_id="c")
    join.session_timeout_ms = join.rebalance_timeout_ms = 10_000
    join.protocols.add(name="range")
    if f"classic {number}" not in cluster.state.groups.live.groups:
        cluster.reply("join_group", join)
    heartbeat = ConsumerGroupHeartbeat(group_id=f"consumers {number}", member_id="m")
    found = cluster.state.groups.consumers.get(heartbeat.group_id)
    if found is None:
        heartbeat.rebalance_timeout_ms = 10_000
        heartbeat.has_owned = heartbeat.has_topic_names = True
        heartbeat.topic_names.append("t")
    else:
        heartbeat.member_epoch = found.members["m"].current.member_epoch
    assert not cluster.do("consumer_group_heartbeat", heartbeat).error_code


@contextmanager
def counted() -> Iterator[list[object]]:
    """Yields the groups whose deadlines are moved in the meantime."""
    moved: list[object] = []
    with ExitStack() as stack:
        for kind in (LiveGroup, LiveConsumerGroup):
            shift = kind._shift

            def counting(self: object, by_ms: int, shift: Callable[..., None] = shift) -> None:
                moved.append(self)
                shift(self, by_ms)

            stack.enter_context(mock.patch.object(kind, "_shift", counting))
        yield moved
