"""Tests the internal topics: the offsets of their records, and what a reader receives (ADR 43)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_TOPICS,
    OFFSETS_NUMBER,
    TRANSACTIONS_NUMBER,
    Kind,
    partition_of,
)
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state import internal
from lacuna.controlplane.state.internal import TOMBSTONES_MS, Place
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, DeleteTopics, TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat, DeleteOffsets
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    DeleteGroups,
    GroupProtocol,
    JoinGroup,
    MemberAssignment,
    OffsetCommit,
    SyncGroup,
    TxnOffsetCommit,
)
from lacuna.controlplane.v1.internal_pb2 import (
    InternalEntry,
    InternalPartitionRead,
    InternalPosition,
    ReadInternal,
)
from lacuna.controlplane.v1.log_pb2 import PartitionDelta, ReadPartitions
from lacuna.controlplane.v1.transactions_pb2 import EndTxn
from lacuna.controlplane.verbs.internal import LISTED_MS
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster

DAY_MS = 86_400_000
ENOUGH = 1 << 20


class Groups(Cluster):
    """A topic `a` with two partitions, and commands for groups and transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.topic_id = self.create("a", 2)
        self.ids_: dict[str, dict[str, Any]] = {}

    def commits(self, group_id: str, *offsets: tuple[str, int]) -> None:
        command = OffsetCommit(group_id=group_id, generation_id=-1, offsets=self.named(offsets))
        assert not any(self.do("offset_commit", command).error_codes)

    def named(self, offsets: Any) -> list[CommittedOffset]:
        return [
            CommittedOffset(partition=self.partition(text), offset=offset, leader_epoch=-1)
            for text, offset in offsets
        ]

    def initializes(self, transactional_id: str) -> None:
        self.ids_[transactional_id] = self.initialize(transactional_id)

    def pends(self, transactional_id: str, group_id: str, *offsets: tuple[str, int]) -> None:
        command = TxnOffsetCommit(
            group_id=group_id,
            generation_id=-1,
            adds_group=True,
            offsets=self.named(offsets),
            **self.ids_[transactional_id],
        )
        assert not any(self.do("txn_offset_commit", command).error_codes)

    def ends(self, transactional_id: str, *, committed: bool) -> None:
        command = EndTxn(
            committed=committed,
            bumps_epoch=True,
            lease_id=self.lease_id,
            **self.ids_[transactional_id],
        )
        ended = self.do("end_txn", command)
        assert ended.error_code == 0
        now = {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch}
        self.ids_[transactional_id] |= now

    def beats(self, member_id: str, member_epoch: int, **given: Any) -> Any:
        return self.do(
            "consumer_group_heartbeat",
            ConsumerGroupHeartbeat(
                group_id="g",
                member_id=member_id,
                member_epoch=member_epoch,
                rebalance_timeout_ms=60_000,
                client_id="c",
                client_host="/h",
                **given,
            ),
        )

    def joins_classic(self) -> None:
        """Add one member to a classic group, which then becomes stable."""
        join = JoinGroup(
            group_id="g",
            protocol_type="consumer",
            protocols=[GroupProtocol(name="range", metadata=b"wants a")],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            client_id="c",
            client_host="/h",
        )
        joined = self.do("join_group", join)
        sync = SyncGroup(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[MemberAssignment(member_id=joined.member_id, assignment=b"gets a")],
        )
        self.do("sync_group", sync)

    def reads(
        self, name: str, offset: int = 0, max_bytes: int = ENOUGH, number: int = OFFSETS_NUMBER
    ) -> InternalPartitionRead:
        """Return the partition that holds the records of a group or, depending on `number`, of a transactional id."""
        position = InternalPosition(
            topic=number, partition=partition_of(name), offset=offset, max_bytes=max_bytes
        )
        command = ReadInternal(positions=[position], max_bytes=max_bytes)
        read: InternalPartitionRead
        (read,) = self.do("read_internal", command).partitions
        return read

    def shows(self, name: str, offset: int = 0, number: int = OFFSETS_NUMBER) -> list[str]:
        return [shown(entry) for entry in self.reads(name, offset, number=number).entries]

    def shows_transactions(self, name: str) -> list[str]:
        return self.shows(name, number=TRANSACTIONS_NUMBER)


def shown(entry: InternalEntry) -> str:
    """Return `0 g a-1 = 5`: the offset, the key and the main part of the value, which a tombstone does not have."""
    key = entry.key
    where = f"{key.topic}-{key.partition}" if key.topic else ""
    name = " ".join(word for word in (key.name, Kind(key.kind).name, key.member_id, where) if word)
    value: Any
    match entry.WhichOneof("value"):
        case None:
            return f"{entry.offset} {name}"
        case "committed":
            value = entry.committed.offset
        case "generation":
            value = f"{entry.generation.generation_id} of {len(entry.generation.members)}"
        case "epoch":
            value = entry.epoch
        case "subscription":
            value = ",".join(entry.subscription.topic_names)
        case "target":
            value = [each for row in entry.target.partitions for each in row.partitions]
        case "current":
            value = entry.current.member_epoch
        case _:
            value = entry.transaction.state
    return f"{entry.offset} {name} = {value}"


@pytest.mark.parametrize(
    ("name", "partition"),
    # In Java their hashes are 101574, -969099747, 0, -2147483648 and 1772899.
    [("foo", 24), ("Hello World!", 47), ("", 0), ("polygenelubricants", 0), ("😀", 49)],
)
def test_the_partition_is_the_one_that_kafka_chooses(name: str, partition: int) -> None:
    assert partition_of(name) == partition


def test_a_commit_takes_the_next_offset_and_leaves_a_hole_where_the_one_before_was() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1), ("a-1", 2))
    assert groups.shows("g") == ["0 g OFFSET a-0 = 1", "1 g OFFSET a-1 = 2"]
    groups.commits("g", ("a-0", 3))
    assert groups.shows("g") == ["1 g OFFSET a-1 = 2", "2 g OFFSET a-0 = 3"]
    read = groups.reads("g", 3)
    assert (read.high_watermark, read.end_offset, len(read.entries)) == (3, 3, 0)
    assert groups.reads("g").entries[0].at_ms == groups.now_ms
    groups.check()


def test_a_transactions_offsets_are_there_once_it_is_committed() -> None:
    groups = Groups()
    groups.initializes("t")
    groups.commits("g", ("a-1", 1))
    groups.pends("t", "g", ("a-1", 8), ("a-0", 7))
    assert groups.shows("g") == ["0 g OFFSET a-1 = 1"]
    groups.ends("t", committed=True)
    assert groups.shows("g") == ["1 g OFFSET a-0 = 7", "2 g OFFSET a-1 = 8"]
    groups.pends("t", "g", ("a-1", 9))
    groups.ends("t", committed=False)
    assert groups.shows("g", 2) == ["2 g OFFSET a-1 = 8"]
    groups.check()


def test_what_is_deleted_leaves_tombstones_for_a_day() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1), ("a-1", 2))
    groups.do("delete_offsets", DeleteOffsets(group_id="g", partitions=[groups.partition("a-0")]))
    assert groups.shows("g") == ["1 g OFFSET a-1 = 2", "2 g OFFSET a-0"]
    groups.do("delete_topics", DeleteTopics(topic_ids=[groups.topic_id]))
    assert groups.shows("g") == ["2 g OFFSET a-0", "3 g OFFSET a-1"]
    groups.check()
    groups.now_ms += TOMBSTONES_MS + 1
    assert groups.shows("g") == []
    assert groups.reads("g").end_offset == 4


def test_a_deleted_group_leaves_tombstones_of_all_its_keys() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1))
    groups.beats("m", 0, has_topic_names=True, topic_names=["a"], has_owned=True)
    groups.beats("m", -1)
    before = groups.reads("g").high_watermark
    groups.do("delete_groups", DeleteGroups(group_ids=["g"]))
    assert groups.shows("g", before) == [
        f"{before} g OFFSET a-0",
        f"{before + 1} g GROUP_EPOCH",
        f"{before + 2} g TARGET_EPOCH",
    ]
    groups.check()


def test_tombstones_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal, "MAX_TOMBSTONES", 50)
    groups = Groups()
    topics = groups.state.internal
    for number in range(53):
        topics.drop_transaction(f"t{number}", groups.now_ms)
    assert len(topics.tombstones) == 50
    assert next(iter(topics.tombstones.values())).name == "t3"
    topics.drop_transaction("later", groups.now_ms + TOMBSTONES_MS + 1)
    assert [each.name for each in topics.tombstones.values()] == ["later"]


def test_a_classic_group_has_a_record_of_its_generation() -> None:
    groups = Groups()
    groups.joins_classic()
    assert groups.shows("g") == ["0 g GENERATION = 1 of 1"]
    (member,) = groups.reads("g").entries[0].generation.members
    assert (member.metadata, member.assignment) == (b"wants a", b"gets a")
    groups.tick(60_000)
    assert groups.shows("g") == ["1 g GENERATION = 2 of 0"]
    groups.beats("m", 0, has_topic_names=True, topic_names=["a"], has_owned=True)
    assert groups.shows("g", 2)[0] == "2 g GENERATION"
    groups.check()


def test_a_consumer_group_has_records_of_its_members() -> None:
    groups = Groups()
    groups.beats("m", 0, has_topic_names=True, topic_names=["a"], has_owned=True)
    assert groups.shows("g") == [
        "0 g SUBSCRIPTION m = a",
        "1 g GROUP_EPOCH = 2",
        "2 g TARGET m = [0, 1]",
        "3 g TARGET_EPOCH = 2",
        "4 g CURRENT m = 2",
    ]
    groups.beats("m", -1)
    assert groups.shows("g") == [
        "5 g SUBSCRIPTION m",
        "6 g TARGET m",
        "7 g CURRENT m",
        "8 g GROUP_EPOCH = 3",
        "9 g TARGET_EPOCH = 3",
    ]
    groups.check()


def test_a_transactional_id_has_a_record_of_its_state() -> None:
    groups = Groups()
    groups.initializes("t")
    assert groups.shows_transactions("t") == ["0 t TRANSACTION = Empty"]
    flags = TRANSACTIONAL | ADDS_PARTITION
    producer = (groups.ids_["t"]["producer_id"], 0)
    assert groups.put("a-0", producer=producer, sequence=0, flags=flags) == 0
    assert groups.shows_transactions("t") == ["1 t TRANSACTION = Ongoing"]
    groups.pends("t", "g", ("a-1", 9))
    (entry,) = groups.reads("t", number=TRANSACTIONS_NUMBER).entries
    found = entry.transaction
    assert ([*found.topics], [*found.partitions], [*found.group_ids]) == (["a"], [0], ["g"])
    groups.ends("t", committed=True)
    assert groups.shows_transactions("t") == ["3 t TRANSACTION = CompleteCommit"]
    groups.tick(8 * DAY_MS)
    assert groups.shows_transactions("t") == ["4 t TRANSACTION"]
    groups.check()


def test_a_read_is_limited_but_never_empty_for_that() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1), ("a-1", 2))
    first = groups.reads("g", max_bytes=1)
    assert [entry.offset for entry in first.entries] == [0]
    assert (first.end_offset, first.high_watermark) == (1, 2)
    rest = groups.reads("g", first.end_offset, max_bytes=1)
    assert [entry.offset for entry in rest.entries] == [1]
    assert rest.end_offset == 2
    positions = [
        InternalPosition(partition=partition_of("g"), offset=offset, max_bytes=ENOUGH)
        for offset in (0, 1)
    ]
    both = groups.do("read_internal", ReadInternal(positions=positions, max_bytes=1))
    assert [len(each.entries) for each in both.partitions] == [1, 0]
    assert both.partitions[1].end_offset == 1


def test_a_partition_that_does_not_exist_cannot_be_read() -> None:
    for position in (InternalPosition(topic=2), InternalPosition(partition=50)):
        reply = Groups().reply("read_internal", ReadInternal(positions=[position]))
        assert "there is no partition" in reply.failure.message


def changes_something(groups: Groups, chance: random.Random) -> None:
    """Change one of three groups at random."""
    group_id = f"g{chance.randrange(3)}"
    match chance.randrange(6):
        case 0:
            partitions = [groups.partition("a-0")]
            groups.do("delete_offsets", DeleteOffsets(group_id=group_id, partitions=partitions))
        case 1:
            groups.do("delete_groups", DeleteGroups(group_ids=[group_id]))
        case 2:
            groups.pends("t", group_id, ("a-0", chance.randrange(9)))
        case 3 if groups.state.transactional_ids["t"].is_ongoing:
            groups.ends("t", committed=chance.random() < 0.8)
        case _:
            groups.commits(group_id, (f"a-{chance.randrange(2)}", chance.randrange(9)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_what_readers_see_is_the_same_however_they_begin(seed: int) -> None:
    """The readers are a list that followed every change, a fresh list, and pages with one entry each."""
    chance = random.Random(seed)
    groups = Groups()
    groups.initializes("t")
    names = [f"g{number}" for number in range(3)]
    seen: dict[str, int] = {}
    for _ in range(60):
        changes_something(groups, chance)
        for name in names:
            read = groups.reads(name)
            offsets = [entry.offset for entry in read.entries]
            assert offsets == sorted(set(offsets))
            assert read.high_watermark == read.end_offset >= seen.get(name, 0)
            seen[name] = read.high_watermark
    followed = {name: groups.shows(name) for name in names}
    for partition in groups.state.internal.offsets:
        partition.newest = None
    assert {name: groups.shows(name) for name in names} == followed
    for name in names:
        paged, offset = list[str](), 0
        while offset < seen[name]:
            read = groups.reads(name, offset, max_bytes=1)
            paged += map(shown, read.entries)
            offset = read.end_offset
        assert paged == followed[name]
    groups.check()


def internal_key(name: str) -> PartitionKey:
    return INTERNAL_TOPICS[OFFSETS_NUMBER].topic_id, partition_of(name)


def test_watchers_are_told_at_the_next_tick_and_before_a_confirming_read_is_answered() -> None:
    groups = Groups()
    key = internal_key("g")
    first = groups.state.watch(key)
    assert (first.is_snapshot, first.high_watermark, first.is_deleted) == (True, 0, False)
    groups.commits("g", ("a-0", 1), ("a-1", 2))
    groups.state.take_changes()
    groups.tick()
    partition, cluster = groups.state.take_changes()
    assert isinstance(partition, PartitionDelta)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
    assert isinstance(cluster, ClusterDelta)
    assert cluster.internal_topics == [OFFSETS_NUMBER]
    groups.tick()
    assert groups.state.take_changes() == []
    groups.commits("g", ("a-0", 3))
    wanted = TopicPartition(topic_id=key[0], partition=key[1])
    read = groups.do("read_partitions", ReadPartitions(partitions=[wanted]))
    assert read.partitions[0].high_watermark == 3
    (delta,) = groups.state.take_changes()
    assert isinstance(delta, PartitionDelta)
    assert delta.high_watermark == 3


def test_nothing_is_listed_or_told_while_nobody_reads() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1))
    groups.tick()
    changes = groups.state.take_changes()
    assert not any(isinstance(each, PartitionDelta) for each in changes)
    partition = groups.state.internal.partition_of_group("g")
    assert partition.newest is None
    groups.shows("g")
    groups.tick(LISTED_MS - 1)
    assert partition.newest is not None
    groups.tick(1)
    assert partition.newest is None


def test_a_new_session_hears_which_topics_there_are() -> None:
    groups = Groups()
    assert groups.state.cluster_snapshot().internal_topics == []
    groups.initializes("t")
    assert groups.state.cluster_snapshot().internal_topics == [TRANSACTIONS_NUMBER]


def test_offsets_of_an_internal_topic_can_be_committed() -> None:
    """A tool may read the topic as a member of a group."""
    groups = Groups()
    topic_id, partition = internal_key("g")
    named = TopicPartition(topic_id=topic_id, partition=partition)
    offset = CommittedOffset(partition=named, offset=4, leader_epoch=0)
    command = OffsetCommit(group_id="g", generation_id=-1, offsets=[offset])
    assert groups.do("offset_commit", command).error_codes == [0]
    assert groups.shows("g") == [f"0 g OFFSET __consumer_offsets-{partition} = 4"]
    groups.check()


def test_a_tombstone_that_is_forgotten_is_not_listed_any_more() -> None:
    groups = Groups()
    groups.commits("g", ("a-0", 1))
    groups.shows("g")
    groups.do("delete_groups", DeleteGroups(group_ids=["g"]))
    place = Place(OFFSETS_NUMBER, partition_of("g"), 1)
    newest = groups.state.internal.partition_of_group("g").newest
    assert newest is not None
    assert [*newest] == [place]
    groups.state.internal.drop_transaction("t", groups.now_ms + TOMBSTONES_MS + 1)
    assert [*newest] == []
