"""Tests long random histories: after every prefix, the journal, the snapshot and the live state agree."""

import random
from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.decision import Context
from lacuna.controlplane.shared.batches import SegmentSlice, commit_of
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import (
    AlterTopicConfigs,
    ConfigChange,
    CreateTopic,
    RenewLease,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import (
    CommitSegment,
    DeleteRecords,
    DeleteRecordsPartition,
    PlanCollection,
    PlanCompaction,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
    SwapSegment,
)
from tests.controlplane.verbs.cluster import add_batch
from tests.controlplane.verbs.compacting import rewritten
from tests.seeds import seeds

NAMES = ["x", "y", "z"]


class History:
    """Draws commands that suit the state and are more often valid than not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.state = machine.State()
        self.sequence = 0
        self.retried: list[CommitSegment] = []
        self.planned: list[SwapExtents] = []

    def draw(self) -> Command:
        verbs = (
            ["commit_segment"] * 8
            + ["end_txn"] * 4
            + ["add_partitions_to_txn", "txn_offset_commit", "swap_extents", "init_producer_id"] * 2
            + ["swap_compacted"] * 2
            + [
                "add_offsets_to_txn",
                "register_agent",
                "open_lease",
                "renew_lease",
                "release_lease",
                "create_topics",
                "delete_topics",
                "create_partitions",
                "alter_topic_configs",
                "delete_records",
                "confirm_collection",
                "pin_reads",
                "unpin_reads",
                "abort_txn",
                "offset_commit",
            ]
        )
        if not self.state.leases:
            verbs = ["register_agent"]
        elif not self.state.topics:
            verbs = ["create_topics"]
        verb = self.random.choice(verbs)
        message = getattr(self, f"_{verb}")()
        verb = "swap_extents" if verb == "swap_compacted" else verb
        return Command(command_id=self.random.randrange(1 << 40), **{verb: message})

    def ask(self, verb: str, message: Any, now_ms: int) -> Any:
        """Return the reply to a command that changes nothing."""
        context = Context(now_ms=now_ms, new_id=lambda: b"")
        decision = machine.handle(self.state, Command(**{verb: message}), context)
        assert decision.records == []
        assert decision.reply is not None
        return getattr(decision.reply, decision.reply.WhichOneof("result"))

    def _lease(self) -> int:
        return self.random.choice([*self.state.leases, self.state.next_lease_id - 1])

    def _segment(self) -> SegmentId:
        self.sequence += 1
        return SegmentId(lease_id=self._lease(), sequence=self.sequence)

    def _partition(self) -> TopicPartition:
        topic_id, index = self.random.choice(list(self.state.partitions))
        return TopicPartition(topic_id=topic_id, partition=index)

    def _producer(self) -> tuple[int, int]:
        if not self.state.transactional_ids or self.random.random() < 0.2:
            return self.random.randrange(self.state.next_producer_id + 1), 0
        found = self.random.choice(list(self.state.transactional_ids.values()))
        stale = self.random.random() < 0.1
        return found.producer_id, max(0, found.producer_epoch - stale)

    def _named(self) -> dict[str, Any]:
        name = self.random.choice(NAMES)
        found = self.state.transactional_ids.get(name)
        if found is None:
            return {"transactional_id": name, "producer_id": 1, "producer_epoch": 0}
        epoch = max(0, found.producer_epoch - (self.random.random() < 0.1))
        return {
            "transactional_id": name,
            "producer_id": found.producer_id,
            "producer_epoch": epoch,
        }

    def _commit_segment(self) -> CommitSegment:
        if self.retried and self.random.random() < 0.1:
            return self.random.choice(self.retried)
        slices = {}
        for _ in range(self.random.randrange(1, 4)):
            wanted = self._partition()
            given = slices[key_of(wanted)] = SegmentSlice(key_of(wanted))
            for _ in range(self.random.randrange(1, 4)):
                self._add_batch(given)
        command = commit_of(self._segment(), 1 << 30, list(slices.values()))
        self.retried = [*self.retried[-5:], command]
        return command

    def _add_batch(self, given: SegmentSlice) -> None:
        producer, sequence, flags = (-1, -1), -1, self.random.choice([0, 0, 1])
        if self.random.random() < 0.7:
            producer = self._producer()
            window = self.state.partitions[given.key].producers.get(producer[0])
            sequence = 0
            if window is not None and window.producer_epoch == producer[1]:
                sequence = window.last_sequence + self.random.choice([1, 1, 1, 0, 2])
            flags |= self.random.choice([12, 12, 4, 0])
        add_batch(
            given,
            count=self.random.randrange(1, 5),
            producer=producer,
            sequence=sequence,
            flags=flags,
            timestamp=self.state.clock_ms - self.random.randrange(100_000),
            size=self.random.choice([50, 500, 900_000]),
            gap=self.random.choice([0, 0, 0, 9]),
        )

    def _end_txn(self) -> dict[str, Any]:
        return {
            **self._named(),
            "committed": self.random.random() < 0.5,
            "bumps_epoch": self.random.random() < 0.6,
        }

    def _add_partitions_to_txn(self) -> dict[str, Any]:
        return {**self._named(), "partitions": [self._partition()]}

    def _add_offsets_to_txn(self) -> dict[str, Any]:
        return {**self._named(), "group_id": "g"}

    def _committed(self) -> CommittedOffset:
        offset = self.random.randrange(100)
        return CommittedOffset(partition=self._partition(), offset=offset, leader_epoch=-1)

    def _txn_offset_commit(self) -> dict[str, Any]:
        return {
            **self._named(),
            "group_id": "g",
            "generation_id": -1,
            "offsets": [self._committed()],
            "adds_group": self.random.random() < 0.7,
        }

    def _offset_commit(self) -> dict[str, Any]:
        return {"group_id": "g", "generation_id": -1, "offsets": [self._committed()]}

    def _swap_extents(self) -> SwapExtents:
        lease_id = next(iter(self.state.leases))
        plan_merge = PlanMerge(
            lease_id=lease_id, max_bytes=1 << 30, small_bytes=1000, min_extents=2
        )
        plan = self.ask("plan_merge", plan_merge, self.state.clock_ms)
        self.sequence += 1
        segment = SegmentId(lease_id=lease_id, sequence=self.sequence)
        partitions: list[SwapPartition] = [rewritten(each, segment) for each in plan.partitions]
        new = SwapSegment(segment=segment, object_size=1 << 30)
        return SwapExtents(segments=[new], partitions=partitions)

    def _swap_compacted(self) -> SwapExtents:
        """Swap a current plan, an earlier plan, or the same plan again."""
        wanted = PlanCompaction(
            partitions=[self._partition()],
            small_bytes=1000,
            rewrites_all=self.random.random() < 0.3,
            max_extents=self.random.choice([0, 0, 3]),
        )
        plan = self.ask("plan_compaction", wanted, self.state.clock_ms)
        command = SwapExtents()
        for found in plan.ranges:
            swapped = rewritten(
                found,
                self._segment(),
                joins=self.random.random() < 0.5,
                compacted_to=self.random.choice([0, found.end_offset]),
                compact_again_ms=self.random.choice([0, plan.planned_at_ms + 1000]),
            )
            command.partitions.append(swapped)
            new = swapped.swap.extents
            if new.sizes:
                segment = SegmentId(lease_id=new.lease_ids[0], sequence=new.sequences[0])
                command.segments.add(segment=segment, object_size=1 << 30)
        self.planned = [*self.planned[-3:], command]
        return self.random.choice(self.planned)

    def _confirm_collection(self) -> dict[str, Any]:
        asked = PlanCollection(lease_id=next(iter(self.state.leases)), max_segments=20)
        plan = self.ask("plan_collection", asked, self.state.clock_ms)
        return {"segments": plan.segments, "swept_lease_ids": plan.swept_lease_ids}

    def _init_producer_id(self) -> dict[str, Any]:
        if self.random.random() < 0.3:
            return {"producer_id": -1, "producer_epoch": -1}
        named = self._named()
        if self.random.random() < 0.5:
            named |= {"producer_id": -1, "producer_epoch": -1}
        timeout = self.random.choice([1000, 100_000])
        return {**named, "has_transactional_id": True, "transaction_timeout_ms": timeout}

    def _abort_txn(self) -> dict[str, Any]:
        return {"transactional_id": self.random.choice(NAMES)}

    def _register_agent(self) -> dict[str, Any]:
        return {"host": self.random.choice("ab"), "port": 9092, "zone": "z"}

    def _open_lease(self) -> dict[str, Any]:
        return {"duration_ms": self.random.choice([0, 1000, 3600000])}

    def _renew_lease(self) -> dict[str, Any]:
        return {"lease_id": self._lease()}

    def _release_lease(self) -> dict[str, Any]:
        return {"lease_id": self._lease()}

    def _create_topics(self) -> dict[str, Any]:
        names = self.random.sample(["a", "b", "c.d", "c_d"], 2)
        configs = self.random.choice(
            [
                {},
                {"retention.ms": "50000"},
                {"retention.bytes": "3000"},
                {"cleanup.policy": "compact", "min.compaction.lag.ms": "500"},
            ]
        )
        topics = [CreateTopic(name=name, partition_count=2, configs=configs) for name in names]
        return {"topics": topics}

    def _delete_topics(self) -> dict[str, Any]:
        return {"topic_ids": [self.random.choice(list(self.state.topics))]}

    def _create_partitions(self) -> dict[str, Any]:
        topic = self.random.choice(list(self.state.topics.values()))
        count = len(topic.partitions) + self.random.randrange(2)
        return {"topics": [{"name": topic.name, "partition_count": count}]}

    def _alter_topic_configs(self) -> AlterTopicConfigs:
        topic = self.random.choice(list(self.state.topics.values()))
        change = ConfigChange(name="retention.ms", value="70000")
        change.operation = self.random.choice([0, 1, 2])
        return AlterTopicConfigs(name=topic.name, changes=[change])

    def _delete_records(self) -> DeleteRecords:
        wanted = DeleteRecordsPartition(partition=self._partition())
        wanted.before_offset = self.random.choice([-1, 2, 5, 20])
        return DeleteRecords(partitions=[wanted])

    def _pin_reads(self) -> dict[str, Any]:
        pin_id = self.random.choice([0, *self.state.segments.pins])
        return {"duration_ms": self.random.randrange(1, 100000), "pin_id": pin_id}

    def _unpin_reads(self) -> dict[str, Any]:
        return {"pin_id": self.random.randrange(1, self.state.next_pin_id + 1)}


class Twin:
    """A second state that receives the same commands and must give the same answers."""

    def __init__(self, state: machine.State) -> None:
        self.state = state
        self.ids = 0

    def take(self, command: Command | None, now_ms: int, first_id: int) -> list[bytes]:
        """Return the records and the reply as bytes. Without a command, run a tick."""
        self.ids = first_id
        context = Context(now_ms=now_ms, new_id=self._new_id)
        if command is None:
            for lease_id in self.state.leases:  # renewals are not kept, so a twin lacks them
                renewal = Command(renew_lease=RenewLease(lease_id=lease_id))
                machine.handle(self.state, renewal, context)
            decision = machine.tick(self.state, context)
        else:
            decision = machine.handle(self.state, command, context)
        answer = [record.SerializeToString(deterministic=True) for record in decision.records]
        for data in answer:
            machine.replay(self.state, JournalRecord.FromString(data))
        if decision.reply is not None:
            answer.append(decision.reply.SerializeToString(deterministic=True))
        return answer

    def _new_id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_at_every_prefix_journal_snapshot_and_state_are_one(seed: int) -> None:
    history = History(seed)
    now_ms = 1_000_000
    founding = machine.found(history.state, "c", Context(now_ms=now_ms, new_id=lambda: b""))
    replayed = machine.State()
    for record in founding.records:
        machine.replay(history.state, record)
        machine.replay(replayed, record)
    live, twin = Twin(history.state), Twin(machine.restore((machine.snapshot(history.state),)))
    events = set()
    for step in range(400):
        now_ms += history.random.choice([0, 1, 1, 500, 30_000])
        command = None if step % 5 == 4 else history.draw()
        answer = live.take(command, now_ms, step * 100)
        again = twin.take(command, now_ms, step * 100)
        if command is None:
            again = _with_groups_of(answer, again, twin.state)
        assert again == answer, command
        for data in answer[: None if command is None else -1]:
            record = JournalRecord.FromString(data)
            events.add(record.WhichOneof("event"))
            machine.replay(replayed, record)
        now = machine.snapshot(history.state)
        assert machine.snapshot(replayed) == now
        assert machine.snapshot(twin.state) == now
        restored = machine.restore((now,))
        assert machine.snapshot(restored) == now
        if step % 7 == 0:
            restored.retention_ages = dict(history.state.retention_ages)  # volatile, as the next
            restored.retention_ticked_ms = history.state.retention_ticked_ms
            twin = Twin(restored)
    assert len(events) >= 16, events
    _check_invariants(history.state)


def _with_groups_of(told: list[bytes], again: list[bytes], state: machine.State) -> list[bytes]:
    """Return a twin's records from a tick, adding the first state's group records, which the twin then applies.

    Sessions are volatile, so a twin restored from a snapshot has no sessions to end.
    """
    of_groups = [data for data in told if JournalRecord.FromString(data).HasField("group")]
    missing = [data for data in of_groups if data not in again]
    for data in missing:
        machine.replay(state, JournalRecord.FromString(data))
    return again + missing


def _check_invariants(state: machine.State) -> None:
    """Check what must hold in any reachable state."""
    referred: dict[tuple[int, int], int] = {}
    for partition in state.partitions.values():
        extents = partition.extents
        for key in zip(extents.lease_ids, extents.sequences, strict=True):
            referred[key] = referred.get(key, 0) + 1
        assert partition.size_bytes == sum(extents.sizes)
        low, high = partition.log_start_offset, partition.high_watermark
        assert low <= partition.last_stable_offset <= high
        assert all(first < end and low < end <= high for first, end in _dead(partition))
        assert list(partition.ongoing.values()) == sorted(partition.ongoing.values())
        for producer_id in partition.ongoing:
            assert partition.key in state.producers[producer_id].partitions
    live = {row.key: row.live_extents for row in state.segments if row.live_extents}
    assert referred == live
    assert {row.key for row in state.segments} == set(referred) | set(state.segments.replaced)


def _dead(partition: Any) -> list[tuple[int, int]]:
    return list(zip(partition.dead.firsts, partition.dead.ends, strict=True))
