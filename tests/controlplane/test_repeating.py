"""Tests that every verb survives a takeover between its commit and its reply (adr/0026).

Each command is decided, the state is replayed from the journal alone, as for a new leader, and the command is decided
again.
"""

from collections.abc import Callable
from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.client.repeating import may_be_repeated
from lacuna.controlplane.shared.batches import commit_of
from lacuna.controlplane.state.internal import InternalTopics
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    DescribeConsumerGroups,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    MemberAssignment,
    SyncGroup,
)
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import (
    CommitSegment,
    PinReads,
    SegmentId,
)
from lacuna.controlplane.v1.share_pb2 import (
    BuryRecords,
    DeadLetters,
)
from tests.controlplane.verbs.cluster import TRANSACTIONAL, Cluster, add_batch

VERBS = tuple(field.name for field in Command.DESCRIPTOR.oneofs_by_name["verb"].fields)


class Scene(Cluster):
    """A topic `a` with records, a producer in the middle of a transaction, and a classic group with an offset."""

    def __init__(self) -> None:
        super().__init__()
        self.topic_id = self.create("a", 2)
        self.put("a-0", 2)
        self.ids_ = self.initialize("t")
        self.producer = (self.ids_["producer_id"], self.ids_["producer_epoch"])
        self.do("add_partitions_to_txn", self.added("a-0"))
        self.put("a-0", 1, producer=self.producer, sequence=0, flags=TRANSACTIONAL)
        self.do("offset_commit", self.offsets())

    def added(self, *partitions: str) -> dict[str, Any]:
        return {"partitions": [*map(self.partition, partitions)], **self.ids_}

    def offsets(self) -> dict[str, Any]:
        offset = {"partition": self.partition("a-0"), "offset": 1, "leader_epoch": -1}
        return {"group_id": "g", "generation_id": -1, "offsets": [offset]}

    def segment(self) -> CommitSegment:
        given = self.slice("a-0")
        add_batch(given, count=3, timestamp=self.now_ms)
        segment = SegmentId(lease_id=self.lease_id, sequence=self.sequence + 1)
        return commit_of(segment, 1 << 40, [given])

    def imported(self) -> dict[str, Any]:
        self.create("mirror", mirror_source="other/topic")
        given = {"partition": self.partition("mirror-0"), "source": "other/topic", "end_offset": 5}
        segment = {"lease_id": self.lease_id, "sequence": self.sequence + 1}
        return {"segment": segment, "slices": [given]}

    def joined(self, **given: Any) -> dict[str, Any]:
        protocols = [{"name": "range", "metadata": b""}]
        return {
            "group_id": "members",
            "protocol_type": "consumer",
            "protocols": protocols,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            **given,
        }

    def sharing(self, member_epoch: int) -> dict[str, Any]:
        return {
            "group_id": "queue",
            "member_id": "m",
            "member_epoch": member_epoch,
            "has_topic_names": member_epoch == 0,
            "topic_names": ["a"] if member_epoch == 0 else (),
        }

    def streaming(self) -> dict[str, Any]:
        """Return a heartbeat that joins a group whose assignments do not wait."""
        change = {"name": "streams.initial.rebalance.delay.ms", "value": "0"}
        self.do("alter_group_configs", {"group_id": "streams", "changes": [change]})
        reads = {"subtopology_id": "0", "source_topics": ["a"]}
        return {
            "group_id": "streams",
            "member_id": "m",
            "rebalance_timeout_ms": 1000,
            "topology": {"subtopologies": [reads]},
        }

    def described(self) -> dict[str, Any]:
        self.do("streams_group_heartbeat", self.streaming())
        return {"group_id": "streams", "member_id": "m", "description": b"text"}

    def to_acquire(self) -> dict[str, Any]:
        change = {"name": "share.auto.offset.reset", "value": "earliest"}
        self.do("alter_group_configs", {"group_id": "queue", "changes": [change]})
        self.do("share_group_heartbeat", self.sharing(0))
        asked = {"partition": self.partition("a-0"), "acquires": True}
        return {
            "group_id": "queue",
            "member_id": "m",
            "partitions": [asked],
            "max_records": 1,
            "max_bytes": 1000,
        }

    def left_queue(self) -> str:
        """Return a share group with a member that has acquired records and left."""
        self.do("share_records", self.to_acquire())
        self.do("share_group_heartbeat", self.sharing(-1))
        return "queue"

    def dying_queue(self) -> str:
        """Return a share group whose first record waits for the dead-letter queue `b`."""
        self.create("b", errors_deadletterqueue_group_enable="true")
        name, value = "errors.deadletterqueue.topic.name", "b"
        change = {"name": name, "value": value}
        self.do("alter_group_configs", {"group_id": "queue", "changes": [change]})
        rules = {"configs": {f"{name}.prefix": ""}}
        self.do("alter_security", {"changes": rules})
        self.do("share_records", self.to_acquire())
        rejected = {"types": bytes([3])}
        asked = {"partition": self.partition("a-0"), "acknowledged": [rejected]}
        self.do("share_records", {"group_id": "queue", "member_id": "m", "partitions": [asked]})
        return "queue"

    def burial(self) -> BuryRecords:
        letters = DeadLetters(
            group_id=self.dying_queue(), partition=self.partition("a-0"), end_offset=1
        )
        given = self.slice("b-0")
        add_batch(given, count=1, timestamp=self.now_ms)
        segment = SegmentId(lease_id=self.lease_id, sequence=self.sequence + 1)
        return BuryRecords(commit=commit_of(segment, 1 << 40, [given]), letters=[letters])

    def planned(self) -> dict[str, Any]:
        self.dying_queue()
        return {}

    def consumer(self, member_epoch: int, member_id: str = "m") -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            group_id="kip-848",
            member_id=member_id,
            member_epoch=member_epoch,
            rebalance_timeout_ms=60_000,
            has_topic_names=True,
            topic_names=["a"],
            has_owned=True,
            client_id="c",
            client_host="h",
        )

    def plain(self, member_epoch: int, member_id: str = "m") -> ConsumerGroupHeartbeat:
        """Return a heartbeat that only reports the member as alive."""
        return ConsumerGroupHeartbeat(
            group_id="kip-848",
            member_id=member_id,
            member_epoch=member_epoch,
            rebalance_timeout_ms=-1,
            client_id="c",
            client_host="h",
        )

    def taken_over(self) -> None:
        """Make the state that of a new leader: the journal's, without volatile parts."""
        self.state = machine.State()
        for data in self.journal:
            machine.replay(self.state, JournalRecord.FromString(data))
        self.state.take_changes()


def _slices(scene: Scene) -> list[CommittedOffset]:
    return [CommittedOffset(partition=scene.partition("a-1"), offset=7, leader_epoch=-1)]


def _generation(scene: Scene) -> SyncGroup:
    """Return the command that a group's leader sends after the first rebalance."""
    joined = scene.do("join_group", scene.joined(client_id="c"))
    assignment = [MemberAssignment(member_id=joined.member_id, assignment=b"all")]
    return SyncGroup(
        group_id="members",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignment,
    )


def _stable(scene: Scene) -> str:
    """Return a member of a stable group."""
    synced = _generation(scene)
    assert scene.do("sync_group", synced).assignment == b"all"
    return synced.member_id


def _pinned(scene: Scene) -> int:
    return int(scene.do("pin_reads", PinReads(duration_ms=60_000)).pin_id)


#: A command of each verb, as a message or its fields, that does something in its scene.
COMMANDS: dict[str, Callable[[Scene], Any]] = {
    "register_agent": lambda _: {"host": "agent", "port": 9093},
    "renew_lease": lambda scene: {"lease_id": scene.lease_id},
    "release_lease": lambda scene: {"lease_id": scene.lease_id},
    "create_topics": lambda _: {"topics": [{"name": "b", "partition_count": 1}]},
    "delete_topics": lambda scene: {"topic_ids": [scene.topic_id]},
    "create_partitions": lambda _: {"topics": [{"name": "a", "partition_count": 3}]},
    "alter_topic_configs": lambda _: {
        "name": "a",
        "changes": [{"name": "cleanup.policy", "operation": 2, "value": "compact"}],
    },
    "alter_security": lambda _: {
        "changes": {
            "added_acls": [{"principal": "User:a", "host": "*"}],
            "quotas": [
                {"entity": [{"type": "user", "name": "a"}], "set": {"request_percentage": 5}}
            ],
        }
    },
    "share_quotas": lambda scene: {
        "lease_id": scene.lease_id,
        "uses": [{"key": "request_percentage", "used": 0.5}],
    },
    "open_lease": lambda _: {"duration_ms": 60_000},
    "describe_leases": lambda _: {},
    "describe_cluster": lambda _: {},
    "commit_segment": Scene.segment,
    "read_partitions": lambda scene: {"partitions": [scene.partition("a-0")]},
    "read_as_of": lambda scene: {
        "partitions": [scene.partition("a-0")],
        "at_ms": scene.now_ms + 1000,
    },
    "read_cut": lambda scene: {"partitions": [scene.partition("a-0")]},
    "read_histories": lambda scene: {"partitions": [scene.partition("a-0")]},
    "delete_records": lambda scene: {
        "partitions": [{"partition": scene.partition("a-0"), "before_offset": 1}]
    },
    "plan_merge": lambda scene: {
        "lease_id": scene.lease_id,
        "max_bytes": 1 << 20,
        "small_bytes": 1 << 20,
        "min_extents": 1,
    },
    "import_segment": lambda scene: scene.imported(),
    "swap_extents": lambda _: {},
    "describe_merges": lambda scene: {"topic_ids": [scene.topic_id]},
    "plan_collection": lambda scene: {"lease_id": scene.lease_id, "max_segments": 10},
    "filter_uncommitted": lambda scene: {
        "segments": [{"lease_id": scene.lease_id, "sequence": 99}]
    },
    "confirm_collection": lambda _: {"segments": [{"lease_id": 7, "sequence": 1}]},
    "pin_reads": lambda _: {"duration_ms": 60_000},
    "unpin_reads": lambda scene: {"pin_id": _pinned(scene)},
    "plan_compaction": lambda scene: {
        "partitions": [scene.partition("a-0")],
        "small_bytes": 1 << 20,
    },
    "plan_cleaning": lambda scene: {"lease_id": scene.lease_id},
    "plan_cleaning_range": lambda scene: {
        "lease_id": scene.lease_id,
        "partition": scene.partition("a-0"),
        "end_offset": 2,
        "max_bytes": 1 << 20,
    },
    "finish_cleaning": lambda scene: {
        "lease_id": scene.lease_id,
        "partition": scene.partition("a-0"),
        "cleaned_to": 2,
        "clean_again_ms": 7,
    },
    "read_hot": lambda scene: {"segments": [{"lease_id": scene.lease_id, "sequence": 1}]},
    "read_internal": lambda _: {"positions": [{}]},
    "init_producer_id": lambda scene: {
        "has_transactional_id": True,
        "transaction_timeout_ms": 60_000,
        **scene.ids_,
    },
    "add_partitions_to_txn": lambda scene: scene.added("a-0", "a-1"),
    "add_offsets_to_txn": lambda scene: {"group_id": "g", **scene.ids_},
    "end_txn": lambda scene: {
        "committed": True,
        "bumps_epoch": True,
        "lease_id": scene.lease_id,
        **scene.ids_,
    },
    "abort_txn": lambda _: {"transactional_id": "t", "producer_id": -1, "producer_epoch": -1},
    "describe_producers": lambda scene: {"partitions": [scene.partition("a-0")]},
    "describe_transactions": lambda _: {"transactional_ids": ["t"]},
    "list_transactions": lambda _: {},
    "join_group": lambda scene: scene.joined(requires_known_member_id=True),
    "sync_group": _generation,
    "heartbeat": lambda scene: {
        "group_id": "members",
        "generation_id": 1,
        "member_id": _stable(scene),
    },
    "leave_group": lambda scene: {
        "group_id": "members",
        "members": [{"member_id": _stable(scene)}],
    },
    "offset_commit": Scene.offsets,
    "txn_offset_commit": lambda scene: {
        "group_id": "g",
        "generation_id": -1,
        "adds_group": True,
        "offsets": _slices(scene),
        **scene.ids_,
    },
    "offset_fetch": lambda _: {
        "groups": [{"group_id": "g", "all_partitions": True, "member_epoch": -1}]
    },
    "describe_groups": lambda _: {"group_ids": ["g"]},
    "list_groups": lambda _: {},
    "delete_groups": lambda _: {"group_ids": ["g"]},
    "consumer_group_heartbeat": lambda scene: scene.consumer(0),
    "describe_consumer_groups": lambda _: {"group_ids": ["g"]},
    "delete_offsets": lambda scene: {"group_id": "g", "partitions": [scene.partition("a-0")]},
    "alter_group_configs": lambda _: {
        "group_id": "g",
        "changes": [{"name": "consumer.session.timeout.ms", "value": "50000"}],
    },
    "describe_group_configs": lambda _: {"group_ids": ["g"]},
    "streams_group_heartbeat": lambda scene: scene.streaming(),
    "describe_streams_groups": lambda _: {"group_ids": ["streams"]},
    "describe_topology": lambda scene: scene.described(),
    "share_group_heartbeat": lambda scene: scene.sharing(0),
    "describe_share_groups": lambda _: {"group_ids": ["queue"]},
    "share_records": lambda scene: scene.to_acquire(),
    "describe_share_offsets": lambda _: {"group_id": "queue", "all_partitions": True},
    "alter_share_offsets": lambda scene: {
        "group_id": scene.left_queue(),
        "offsets": [{"partition": scene.partition("a-0"), "start_offset": 1}],
    },
    "plan_dead_letters": Scene.planned,
    "bury_records": Scene.burial,
    "delete_share_offsets": lambda scene: {
        "group_id": scene.left_queue(),
        "topic_ids": [scene.topic_id],
    },
}


def test_there_is_a_command_of_every_verb() -> None:
    assert set(COMMANDS) == set(VERBS)


def _effect(scene: Scene, verb: str) -> object:
    """Return what a command with this verb changed.

    Each offset commit has an internal number and takes an offset in __consumer_offsets, as in Kafka. InitProducerId
    takes an offset in __transaction_state.
    """
    if verb == "init_producer_id":
        scene.state.transactional_ids["t"].log_offset = 0
        scene.state.groups.offsets.internal = InternalTopics()
    if verb in ("offset_commit", "txn_offset_commit"):
        return scene.reply("offset_fetch", COMMANDS["offset_fetch"](scene))
    return machine.snapshot(scene.state)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_repeated_does_and_says_the_same(verb: str) -> None:
    scene = Scene()
    message = COMMANDS[verb](scene)
    first = scene.reply(verb, message)
    done = _effect(scene, verb)
    scene.taken_over()
    again = scene.reply(verb, message)
    is_same = (again, _effect(scene, verb)) == (first, done)
    assert is_same == may_be_repeated(Command(**{verb: message})), (first, again)


def _to_give_up(scene: Scene) -> ConsumerGroupHeartbeat:
    """Another member has joined, so this member loses a partition."""
    joined = scene.do("consumer_group_heartbeat", scene.consumer(0))
    scene.do("consumer_group_heartbeat", scene.consumer(0, "n"))
    return scene.plain(joined.member_epoch)


def _to_take(scene: Scene) -> ConsumerGroupHeartbeat:
    """The other member has given up a partition."""
    scene.do("consumer_group_heartbeat", _to_confirm(scene))
    return scene.plain(3, "n")


def _to_move(scene: Scene) -> ConsumerGroupHeartbeat:
    """There are more partitions, so the member learns its next epoch."""
    joined = scene.do("consumer_group_heartbeat", scene.consumer(0))
    scene.do("create_partitions", COMMANDS["create_partitions"](scene))
    return scene.plain(joined.member_epoch)


def _to_confirm(scene: Scene) -> ConsumerGroupHeartbeat:
    """The member confirms that it has given up a partition."""
    giving = _to_give_up(scene)
    told = scene.do("consumer_group_heartbeat", giving)
    giving.has_owned = True
    giving.owned.extend(told.assignment)
    return giving


def _to_join(scene: Scene) -> ConsumerGroupHeartbeat:
    return scene.consumer(0)


def _to_join_under_an_instance_id(scene: Scene) -> ConsumerGroupHeartbeat:
    joining = scene.consumer(0)
    joining.group_instance_id = "i"
    return joining


@pytest.mark.parametrize(
    "make",
    [_to_join, _to_join_under_an_instance_id, _to_give_up, _to_take, _to_move, _to_confirm],
)
def test_a_member_whose_heartbeat_is_repeated_is_told_all(
    make: Callable[[Scene], ConsumerGroupHeartbeat],
) -> None:
    """The first answer may be lost, and the client cannot know that there is a second one."""
    scene = Scene()
    message = make(scene)
    first = scene.do("consumer_group_heartbeat", message)
    done = _effect(scene, "consumer_group_heartbeat")
    for _ in range(3):
        scene.taken_over()
        again = scene.do("consumer_group_heartbeat", message)
        described = scene.do(
            "describe_consumer_groups", DescribeConsumerGroups(group_ids=["kip-848"])
        )
        members = {each.member_id: each for each in described.groups[0].members}
        assert again.has_assignment
        assert again.assignment == members[message.member_id].assignment
        assert (again.error_code, again.member_epoch) == (0, first.member_epoch)
        assert _effect(scene, "consumer_group_heartbeat") == done
