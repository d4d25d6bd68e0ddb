"""Consumer groups of KIP-848 with librdkafka: join, move, die, upgrade and downgrade (S26). Also, share consumers.

The coordinator's heartbeat interval is short here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupType,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from lacuna.controlplane.state.groups.consumer.live import Deadline
from lacuna.testing import Cluster

from .hurry import SESSION_MS, SHORT_SESSION_MS, hurry, keep_leases
from .librd import COMMITTED, end, producer, read, send


@pytest.fixture(scope="module", name="quick")
def _quick() -> Iterator[Cluster]:
    """A separate cluster with short intervals."""
    with Cluster(agents=2) as running:
        keep_leases(running)
        hurry(running)
        yield running


class Group:
    """Members of one group that are polled together, and the records that they received."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self.cluster, self.group, self.topic = cluster, group, topic
        self.members: list[Consumer] = []
        self.got: list[bytes] = []

    def join(self, protocol: str = "consumer", **config: object) -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.cluster.bootstrap,
            "group.id": self.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": COMMITTED,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200}
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        made = Consumer(settings)
        made.subscribe([self.topic])
        self.members.append(made)
        return made

    def leave(self, member: Consumer) -> None:
        self.members.remove(member)
        member.close()

    def poll_until(self, done: Callable[[], bool], seconds: float = 240) -> None:
        """Waits a long time, since a member that misses an answer may be fenced until its session ends, as in Kafka."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, self.sizes()
            for member in self.members:
                message = member.poll(0.02)
                if message is not None and message.error() is None:
                    self.got.append(message.value() or b"")

    def sizes(self) -> list[int]:
        return [len(each.assignment()) for each in self.members]

    def settle(self, *sizes: int) -> None:
        """Poll until the members have this many partitions, without duplicates."""

        def is_settled() -> bool:
            held = [(row.topic, row.partition) for m in self.members for row in m.assignment()]
            return sorted(self.sizes()) == sorted(sizes) and len(set(held)) == sum(sizes)

        self.poll_until(is_settled)

    def described_as(self, state: ConsumerGroupState) -> Any:
        """Return the description once the coordinator knows which partitions all members took and gave up."""
        found: list[Any] = []

        def is_there() -> bool:
            found.append(self.described())
            return bool(found[-1].state == state)

        self.poll_until(is_there)
        return found[-1]

    def described(self) -> Any:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        return admin.describe_consumer_groups([self.group])[self.group].result(60)

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.fixture
def group(quick: Cluster, request: pytest.FixtureRequest) -> Iterator[Group]:
    """A topic of six partitions and a group that reads it; members are closed at the end."""
    name = request.node.name
    made = Group(quick, f"g-{name}", quick.create_topic(f"t-{name}", 6))
    yield made
    made.close()


def test_three_members_one_leaves_and_one_dies(quick: Cluster, group: Group) -> None:
    """S26: partitions move step by step, immediately after a leave, and after a death once the session ends."""
    first = group.join()
    group.settle(6)
    second, third = group.join(), group.join()
    group.settle(2, 2, 2)
    described = group.described_as(ConsumerGroupState.STABLE)
    assert described.type == ConsumerGroupType.CONSUMER
    assert [len(each.assignment.topic_partitions) for each in described.members] == [2, 2, 2]
    group.leave(second)
    group.settle(3, 3)
    hurry(quick, SHORT_SESSION_MS)
    soon = quick.embedded.clock.now_ms() + SESSION_MS // 2
    group.poll_until(lambda: _session_end_ms(quick, group.group, first.memberid()) < soon)
    group.members.remove(third)  # it is no longer polled, and max.poll.interval.ms is far away
    third.unsubscribe()
    group.settle(6)
    third.close()
    assert first.assignment()
    hurry(quick)


def test_committed_offsets_and_an_exactly_once_loop(quick: Cluster, group: Group) -> None:
    """S26, KIP-447: with an old epoch, offsets in a transaction fail for a partition that has moved (KIP-1251)."""
    plain = producer(quick.bootstrap)
    send(plain, group.topic, [b"%d" % number for number in range(20)])
    sink = quick.create_topic(f"{group.topic}-sink")
    worker = producer(quick.bootstrap, f"id-{group.group}")
    member = group.join()
    group.settle(6)
    stale = member.consumer_group_metadata()
    group.poll_until(lambda: len(group.got) >= 10)
    for commit, values in ((False, [b"no"]), (True, group.got[:10])):
        worker.begin_transaction()
        for value in values:
            worker.produce(sink, value)
        worker.send_offsets_to_transaction(
            [TopicPartition(group.topic, 0, 10)], member.consumer_group_metadata(), 60
        )
        end(worker, commit=commit)
    assert len(read(quick.bootstrap, sink).values) == 10
    (committed,) = member.committed([TopicPartition(group.topic, 0)], 60)
    assert committed.offset == 10
    other = group.join()
    group.settle(3, 3)
    kept, moved = member.assignment()[0].partition, other.assignment()[0].partition
    worker.begin_transaction()
    worker.send_offsets_to_transaction([TopicPartition(group.topic, kept, 11)], stale, 60)
    with pytest.raises(Exception, match=r"generation|epoch|Generation|member"):
        worker.send_offsets_to_transaction([TopicPartition(group.topic, moved, 11)], stale, 60)
    worker.abort_transaction(60)


def test_upgrade_of_a_running_group_and_back(quick: Cluster, group: Group) -> None:
    """S26: members switch to the new protocol one by one, and back; no partition is left out."""
    old = [group.join("classic"), group.join("classic")]
    group.settle(3, 3)
    assert group.described().type == ConsumerGroupType.CLASSIC
    group.join()
    group.settle(2, 2, 2)
    assert group.described().type == ConsumerGroupType.CONSUMER
    for member in old:
        group.leave(member)
        group.join()
        group.settle(2, 2, 2)
    new = list(group.members)
    for member in new:
        group.leave(member)
        group.join("classic")
        group.settle(2, 2, 2)
    assert group.described().type == ConsumerGroupType.CLASSIC
    values = [b"%d" % number for number in range(30)]
    who = producer(quick.bootstrap)
    for partition in range(6):
        send(who, group.topic, values[partition::6], partition)
    group.poll_until(lambda: len(group.got) >= len(values))
    assert sorted(group.got) == sorted(values)


def test_members_outlive_a_restart_of_everything() -> None:
    """S26: epochs and assignments are journalled, so no member has to join again, and sessions restart."""
    with Cluster() as cluster:
        keep_leases(cluster)
        hurry(cluster)
        group = Group(cluster, "g", cluster.create_topic("t", 4))
        for _ in range(2):
            group.join()
        group.settle(2, 2)
        before = [sorted(row.partition for row in each.assignment()) for each in group.members]
        epoch = _epoch(cluster, "g")
        cluster.kill()
        cluster.start()
        keep_leases(cluster)
        hurry(cluster)
        values = [b"%d" % number for number in range(8)]
        who = producer(cluster.bootstrap)
        for partition in range(4):
            send(who, "t", values[partition::4], partition)
        group.poll_until(lambda: len(group.got) >= len(values))
        after = [sorted(row.partition for row in each.assignment()) for each in group.members]
        assert (after, _epoch(cluster, "g")) == (before, epoch)
        group.close()


def _session_end_ms(cluster: Cluster, group_id: str, survivor: str) -> int:
    """Return when the session of the group's other member ends, by the cluster's clock; 0 if it has ended."""

    async def ask() -> int:
        live = cluster.embedded.running.runtime._state.groups.live_consumers[group_id]
        ends_ms = (
            end_ms
            for (member_id, kind), end_ms in live.deadlines.items()
            if kind is Deadline.SESSION and member_id != survivor
        )
        return next(ends_ms, 0)

    return cluster.run(ask())


def _epoch(cluster: Cluster, group_id: str) -> int:
    async def ask() -> int:
        return int(cluster.embedded.running.runtime._state.groups.consumers[group_id].group_epoch)

    return cluster.run(ask())


def test_share_consumers_take_records_of_one_partition_together(quick: Cluster) -> None:
    """Each committed record is accepted once; every tenth is released first, and no aborted record is delivered."""
    topic = "shared"
    quick.create_topic(topic)
    admin = AdminClient({"bootstrap.servers": quick.bootstrap})
    set_to = AlterConfigOpType.SET
    configs = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    entries = [
        ConfigEntry(f"share.{name}", value, incremental_operation=set_to)
        for name, value in configs.items()
    ]
    group = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=entries)
    admin.incremental_alter_configs([group])[group].result(60)
    writer = producer(quick.bootstrap, "sharing")
    for number in range(20):
        writer.begin_transaction()
        for _ in range(20):
            writer.produce(topic, b"aborted" if number % 2 else b"committed")
        end(writer, commit=not number % 2)
    settings = {
        "bootstrap.servers": quick.bootstrap,
        "group.id": topic,
        "share.acknowledgement.mode": "explicit",
        "log_level": 0,
    }
    members = [ShareConsumer(settings) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    accepted: list[int] = []
    released: set[int] = set()
    deadline = time.monotonic() + 60
    while len(accepted) < 200 and time.monotonic() < deadline:
        for member in members:
            for message in member.poll(timeout=0.1) or ():
                assert (message.error(), message.value()) == (None, b"committed")
                offset = message.offset() or 0
                if offset % 10 == 0 and offset not in released:
                    released.add(offset)
                    member.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    accepted.append(offset)
                    member.acknowledge(message, AcknowledgeType.ACCEPT)
    for member in members:
        member.close()
    assert sorted(accepted) == sorted(set(accepted))
    assert (len(accepted), len(released)) == (200, 20)
