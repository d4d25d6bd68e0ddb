"""Runs scripts for share groups on the pure machine (KIP-932), with the lines for consumer groups and these.

log t-0 10                    ->            appends ten records; `dead` aborts them, `open` leaves them undecided
share a topics=t              -> a: 2 t:0   member a joins or beats, `share a leaves`
get a t-0 5                   -> a: 0-4x1   acquires at most five records; x1 is their first delivery
ack a t-0 0-4                 -> a: ok      accepts; `0-4=release`, or `0-2=102` with a type for each
runs t-0                      -> 3..10 3-4 available x1, 5-9 acquired x1 a
plan                          -> dlq.t 0-4x1 rejected     the letters to write to the dead-letter queue
bury t-0 0-4                  -> ok                       as if the agent could not write them
group h                       ->            the lines that follow are about this group
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.topic_configs import SET
from lacuna.controlplane.state.groups.consumer.assignments import read_assignment
from lacuna.controlplane.state.groups.share import RecordState, Run, painted
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    AlterGroupConfigs,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.share_pb2 import (
    AcknowledgedRange,
    AlterShareOffsets,
    BuryRecords,
    DeadLetters,
    DeleteShareOffsets,
    DescribeShareOffsets,
    PlanDeadLetters,
    RecordsShared,
    ShareOffset,
    SharePartitionRequest,
    ShareRecords,
)
from lacuna.controlplane.verbs import dead_letters
from lacuna.controlplane.verbs.groups import share_records
from lacuna.controlplane.verbs.groups.consumer.assignors import Subscriber, assign_simple
from tests.controlplane.verbs.groups.conftest import error_name, follow, partition_of
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench, shown

TYPES = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}


@dataclass
class ShareBench(ConsumerBench):
    """Like ConsumerBench, with logs and with members of share groups."""

    def check(self) -> None:
        super().check()
        for share in self.groups.shares.values():
            assert share.run_count == sum(len(each.runs) for each in share.partitions.values())
            for partition in share.partitions.values():
                reached = partition.start_offset
                for run in partition.runs:
                    assert reached <= run.first_offset < run.end_offset
                    reached = run.end_offset
                assert reached <= partition.end_offset
                assert not partition.runs or not partition.runs[0].is_final

    def do_log(self, place: str, count: str, kind: str = "") -> str:
        partition = self.state.partitions[key_of(partition_of(place))]
        first, end = partition.high_watermark, partition.high_watermark + int(count)
        partition.extents.append_row((1, first, 0, 100 * int(count), first, end, -1, -1, -1, 0, 0))
        partition.high_watermark = end
        if kind == "dead":
            partition.kill(array("q", (first, end)))
        if kind == "open":
            partition.ongoing[1] = first
        return ""

    def do_end(self, place: str, kind: str = "") -> str:
        """End the open transaction in a partition."""
        partition = self.state.partitions[key_of(partition_of(place))]
        first = partition.ongoing.pop(1)
        if kind == "dead":
            partition.kill(array("q", (first, partition.high_watermark)))
        return ""

    def do_trim(self, place: str, offset: str) -> str:
        self.state.partitions[key_of(partition_of(place))].log_start_offset = int(offset)
        return ""

    def do_set(self, name: str, value: str = "") -> str:
        name = name if name.startswith("errors.") else f"share.{name}"
        change = ConfigChange(name=name, operation=SET, value=value)
        command = AlterGroupConfigs(group_id=self.group_id, changes=[change])
        reply = self.ask(Command(alter_group_configs=command))
        return reply.group_configs_altered.error_message[:60]

    def do_queue(self, topic: str, is_enabled: str = "true") -> str:
        """Make a topic a dead-letter queue, or stop it from being one."""
        found = self.state.topics_by_name[topic]
        found.set_configs({"errors.deadletterqueue.group.enable": is_enabled}, {})
        return ""

    def do_rule(self, name: str, value: str = "") -> str:
        """Set a config for all brokers."""
        self.state.security.configs[f"errors.deadletterqueue.{name}"] = value
        return ""

    def do_plan(self, session: str = "1") -> str:
        self.session = int(session)
        reply = self.ask(Command(plan_dead_letters=PlanDeadLetters()))
        planned = reply.dead_letters_planned
        shown = [
            " ".join(
                (
                    f"{group.queue}{'' if group.partition_count else ' new'}",
                    *(
                        f"{each.first_offset}-{each.end_offset - 1}x{each.delivery_count}"
                        f"{' rejected' * each.is_rejected}"
                        for each in group.letters
                    ),
                )
            )
            for group in planned.groups
        ]
        return "; ".join(
            [*shown, *(reason.removeprefix("share group g: ")[:60] for reason in planned.lost)]
        )

    def do_group(self, group_id: str) -> str:
        self.group_id = group_id
        return ""

    def do_bury(self, place: str, offsets: str) -> str:
        first, _, last = offsets.partition("-")
        letters = DeadLetters(
            group_id=self.group_id,
            partition=partition_of(place),
            first_offset=int(first),
            end_offset=int(last) + 1,
            slice=-1,
        )
        reply = self.ask(Command(bury_records=BuryRecords(letters=[letters])))
        return error_name(reply.segment_committed.error_code)

    def do_share(self, name: str, *words: str) -> str:
        options = self.options(words)
        epoch = -1 if "leaves" in options else int(options.get("epoch", self.epochs.get(name, 0)))
        topics = [each for each in options.get("topics", "").split(",") if each]
        command = ConsumerGroupHeartbeat(
            group_id=options.get("group", self.group_id),
            member_id=options.get("id", name),
            member_epoch=epoch,
            has_topic_names="topics" in options,
            topic_names=topics,
            client_id=name,
        )
        if epoch == -1:
            self.epochs.pop(name, None)
        return self.told(name, self.send(name, Command(share_group_heartbeat=command)))

    def show_share_group_heartbeat_answered(
        self, name: str, answered: ConsumerGroupHeartbeatAnswered
    ) -> str:
        if answered.error_code:
            return error_name(answered.error_code)
        if answered.member_epoch > 0:
            self.epochs[name] = answered.member_epoch
        assigned = f" {shown(read_assignment(answered.assignment))}"
        return f"{answered.member_epoch}{assigned if answered.has_assignment else ''}"

    def do_get(self, name: str, place: str, most: str = "1000", size: str = "1000000") -> str:
        asked = SharePartitionRequest(partition=partition_of(place), acquires=True)
        return self.shares(name, asked, max_records=int(most), max_bytes=int(size))

    def do_ack(self, name: str, place: str, *ranges: str) -> str:
        asked = SharePartitionRequest(partition=partition_of(place))
        for each in ranges:
            offsets, _, kind = each.partition("=")
            first, _, last = offsets.partition("-")
            types = bytes(map(int, kind)) if kind.isdigit() else bytes([TYPES[kind or "accept"]])
            asked.acknowledged.append(
                AcknowledgedRange(
                    first_offset=int(first), last_offset=int(last or first), types=types
                )
            )
        return self.shares(name, asked)

    def do_close(self, name: str, place: str) -> str:
        return self.shares(
            name, SharePartitionRequest(partition=partition_of(place)), releases=True
        )

    def shares(self, name: str, asked: SharePartitionRequest, **more: int) -> str:
        command = ShareRecords(
            group_id=self.group_id,
            member_id=name,
            partitions=[asked],
            **more,  # type: ignore[arg-type]
        )
        return self.told(name, self.send(name, Command(share_records=command)))

    def show_records_shared(self, _name: str, shared: RecordsShared) -> str:
        (answer,) = shared.partitions
        if answer.error_code or answer.acknowledge_error_code:
            return error_name(answer.error_code or answer.acknowledge_error_code)
        if answer.HasField("begins_at_ms"):
            return f"begins {(self.now_ms - answer.begins_at_ms) // 1000}s ago"
        acquired = [
            f"{each.first_offset}-{each.last_offset}x{each.delivery_count}"
            for each in answer.acquired
        ]
        return " ".join(acquired) or "ok"

    def do_runs(self, place: str) -> str:
        partition = self.groups.shares[self.group_id].partitions[key_of(partition_of(place))]
        runs = [
            f"{run.first_offset}-{run.end_offset - 1} {run.state.name.lower()}"
            f"{'' if run.is_final else f' x{run.delivery_count}'} {run.member_id}".strip()
            for run in partition.runs
        ]
        return f"{partition.start_offset}..{partition.end_offset} {', '.join(runs)}"

    def do_offset(self, place: str, offset: str = "") -> str:
        partition = partition_of(place)
        if offset:
            offsets = [ShareOffset(partition=partition, start_offset=int(offset))]
            altering = AlterShareOffsets(group_id=self.group_id, offsets=offsets)
            reply = self.ask(Command(alter_share_offsets=altering))
            altered = reply.share_offsets_altered
            return error_name(altered.error_code or altered.error_codes[0])
        asking = DescribeShareOffsets(group_id=self.group_id, partitions=[partition])
        reply = self.ask(Command(describe_share_offsets=asking))
        (found,) = reply.share_offsets_described.offsets
        return f"{found.start_offset} lag {found.lag}"

    def do_forget_topic(self, topic: str) -> str:
        deleting = DeleteShareOffsets(group_id=self.group_id, topic_ids=[topic.encode() * 16])
        reply = self.ask(Command(delete_share_offsets=deleting))
        deleted = reply.share_offsets_deleted
        return error_name(deleted.error_code or deleted.error_codes[0])


BEGIN = """
    topic t 1                     ->
    set auto.offset.reset earliest ->
    log t-0 10                    ->
    share a topics=t              -> a: 2 t:0
"""


def play(script: str) -> ShareBench:
    """Run a script after BEGIN, and compare every line with its expected result."""
    bench = follow(ShareBench(), BEGIN + script)
    bench.check_every_prefix()
    return bench


SCRIPTS = {
    "records are delivered once, and accepted": """
        get a t-0 4                   -> a: 0-3x1
        get a t-0                     -> a: 4-9x1
        get a t-0                     -> a: ok
        ack a t-0 0-3                 -> a: ok
        runs t-0                      -> 4..10 4-9 acquired x1 a
        ack a t-0 6-9                 -> a: ok
        runs t-0                      -> 4..10 4-5 acquired x1 a, 6-9 acknowledged
        ack a t-0 4-5                 -> a: ok
        runs t-0                      -> 10..10
        offset t-0                    -> 10 lag 0
    """,
    "each record has its own type": """
        get a t-0                     -> a: 0-9x1
        ack a t-0 0-4=12301           -> a: ok
        runs t-0                      -> 1..10 1-1 available x1, 2-3 archived, 4-4 acknowledged, 5-9 acquired x1 a
        get a t-0                     -> a: 1-1x2
        ack a t-0 1-1 5-9=reject      -> a: ok
        runs t-0                      -> 10..10
    """,
    "an acknowledgement counts as a whole or not at all": """
        share b topics=t              -> b: 3 t:0
        get a t-0 4                   -> a: 0-3x1
        get b t-0 4                   -> b: 4-7x1
        ack a t-0 0-3 4-5             -> a: INVALID_RECORD_STATE
        ack a t-0 0-11                -> a: INVALID_REQUEST
        ack a t-0 0-3=12              -> a: INVALID_REQUEST
        ack a t-0 0-3=5555            -> a: INVALID_REQUEST
        runs t-0                      -> 0..8 0-3 acquired x1 a, 4-7 acquired x1 b
        ack a t-0 0-3                 -> a: ok
        ack a t-0 0-3                 -> a: ok
        ack a t-0 4-5                 -> a: INVALID_RECORD_STATE
        runs t-0                      -> 4..8 4-7 acquired x1 b
    """,
    "a lock ends, and the last delivery archives": """
        set delivery.count.limit 2    ->
        get a t-0 2                   -> a: 0-1x1
        after 29s                     ->
        runs t-0                      -> 0..2 0-1 acquired x1 a
        share a                       -> a: 2
        after 1s                      ->
        runs t-0                      -> 0..2 0-1 available x1
        ack a t-0 0-1                 -> a: INVALID_RECORD_STATE
        get a t-0 2                   -> a: 0-1x2
        share a                       -> a: 2
        after 30s                     ->
        runs t-0                      -> 2..2
    """,
    "a renewed lock lasts longer": """
        get a t-0 2                   -> a: 0-1x1
        after 20s                     ->
        ack a t-0 0-0=renew           -> a: ok
        after 10s                     ->
        runs t-0                      -> 0..2 0-0 acquired x1 a, 1-1 available x1
        set renew.acknowledge.enable false ->
        ack a t-0 0-0=renew           -> a: INVALID_REQUEST
    """,
    "a new lock duration holds for what is delivered from then on": """
        get a t-0 1                   -> a: 0-0x1
        set record.lock.duration.ms 15000 ->
        get a t-0 1                   -> a: 1-1x1
        after 15s                     ->
        runs t-0                      -> 0..2 0-0 acquired x1 a, 1-1 available x1
    """,
    "what was aborted is never acquired or counted": """
        log t-0 1000000 dead          ->
        log t-0 2                     ->
        log t-0 5 dead                ->
        get a t-0                     -> a: 0-9x1 1000010-1000011x1
        ack a t-0 0-9 1000010-1000011 -> a: ok
        get a t-0                     -> a: ok
        runs t-0                      -> 1000017..1000017
    """,
    "read_committed waits for the outcome": """
        set isolation.level read_committed ->
        log t-0 3 open                ->
        log t-0 1                     ->
        get a t-0                     -> a: 0-9x1
        get a t-0                     -> a: ok
        end t-0                       ->
        get a t-0                     -> a: 10-13x1
    """,
    "a record that is aborted while it is available is passed over": """
        log t-0 3 open                ->
        get a t-0                     -> a: 0-12x1
        ack a t-0 0-12=release        -> a: ok
        end t-0 dead                  ->
        get a t-0                     -> a: 0-9x2
    """,
    "what a group may hold is bounded": """
        set partition.max.record.locks 100 ->
        log t-0 200                   ->
        get a t-0                     -> a: 0-99x1
        get a t-0                     -> a: ok
        ack a t-0 1-99                -> a: ok
        get a t-0                     -> a: ok
        ack a t-0 0                   -> a: ok
        get a t-0 500                 -> a: 100-199x1
    """,
    "bytes bound a request, but one record always comes": """
        log t-0 10                    ->
        get a t-0 1000 500            -> a: 0-9x1
        get a t-0 1000 0              -> a: ok
    """,
    "what a member held is available once it leaves or is silent": """
        share b topics=t              -> b: 3 t:0
        share a                       -> a: 3 t:0
        get a t-0 2                   -> a: 0-1x1
        share a leaves                -> a: -1
        runs t-0                      -> 0..2 0-1 available x1
        get b t-0 2                   -> b: 0-1x2
        set record.lock.duration.ms 60000 ->
        get b t-0 2                   -> b: 2-3x1
        after 45s                     ->
        runs t-0                      -> 0..4 0-1 available x2, 2-3 available x1
        get a t-0                     -> a: ok
    """,
    "a session that closes gives everything back": """
        get a t-0 2                   -> a: 0-1x1
        close a t-0                   -> a: ok
        runs t-0                      -> 0..2 0-1 available x1
    """,
    "retention moves the start under what is held": """
        get a t-0 6                   -> a: 0-5x1
        trim t-0 4                    ->
        get a t-0 1                   -> a: 6-6x1
        runs t-0                      -> 4..7 4-6 acquired x1 a
        ack a t-0 0-3                 -> a: ok
        ack a t-0 2-6                 -> a: ok
        runs t-0                      -> 7..7
    """,
    "offsets of an empty group can be altered and deleted": """
        get a t-0 6                   -> a: 0-5x1
        offset t-0 3                  -> NON_EMPTY_GROUP
        share a leaves                -> a: -1
        offset t-0                    -> 0 lag 10
        offset t-0 3                  -> ok
        offset t-0                    -> 3 lag 7
        share a topics=t              -> a: 4 t:0
        get a t-0                     -> a: 3-9x1
        forget_topic t                -> NON_EMPTY_GROUP
        share a leaves                -> a: -1
        forget_topic t                -> ok
        offset t-0                    -> -1 lag -1
    """,
    "offsets can be set before the first member": """
        share a leaves                -> a: -1
        delete g                      -> ok
        offset t-0                    -> -1 lag -1
        offset t-0 3                  -> ok
        restart                       ->
        offset t-0                    -> 3 lag 7
        share a topics=t              -> a: 2 t:0
        get a t-0                     -> a: 3-9x1
    """,
    "a group begins at the end, or at a time": """
        set auto.offset.reset latest  ->
        get a t-0                     -> a: ok
        log t-0 2                     ->
        get a t-0                     -> a: 10-11x1
        share a leaves                -> a: -1
        forget_topic t                -> ok
        set auto.offset.reset by_duration:PT1M30S ->
        share a topics=t              -> a: 4 t:0
        get a t-0                     -> a: begins 90s ago
    """,
    "a deleted topic takes its share partitions along": """
        get a t-0                     -> a: 0-9x1
        drop t                        ->
        share a                       -> a: 3 -
        get a t-0                     -> a: UNKNOWN_TOPIC_OR_PARTITION
    """,
    "heartbeats are checked": """
        share a epoch=3               -> a: FENCED_MEMBER_EPOCH
        share b epoch=2               -> b: UNKNOWN_MEMBER_ID
        share b                       -> b: INVALID_REQUEST
        share b epoch=-2              -> b: INVALID_REQUEST
        share b id= topics=t          -> b: INVALID_REQUEST
        share b group= topics=t       -> b: INVALID_REQUEST
        share b group=h leaves        -> b: GROUP_ID_NOT_FOUND
        reconnect                     ->
        share a                       -> a: 2 t:0
        share a                       -> a: 2
        restart                       ->
        share a                       -> a: 2 t:0
    """,
    "a group has one kind": """
        beat x topics=t               -> x: GROUP_ID_NOT_FOUND
        join x                        -> x: INCONSISTENT_GROUP_PROTOCOL
        commit x gen=-1 t-0@1         -> x: GROUP_ID_NOT_FOUND
        list                          -> g:Stable:share:share
        list types=consumer           ->
        delete g                      -> NON_EMPTY_GROUP
        share a leaves                -> a: -1
        list                          -> g:Empty:share:share
        delete g                      -> ok
        list                          ->
    """,
    "what is given up waits for the dead-letter queue": """
        topic dlq.t 1                 ->
        queue dlq.t                   ->
        set errors.deadletterqueue.topic.name dlq.t ->
        set delivery.count.limit 2    ->
        get a t-0                     -> a: 0-9x1
        ack a t-0 0-1=reject 2=gap 3-4=release 5-9 -> a: ok
        runs t-0                      -> 0..10 0-1 archiving x1, 2-2 archived, 3-4 available x1, 5-9 acknowledged
        get a t-0                     -> a: 3-4x2
        after 30s                     ->
        plan                          -> dlq.t 0-1x1 rejected 3-4x2
        ack a t-0 0-1                 -> a: INVALID_RECORD_STATE
        plan                          -> dlq.t 0-1x1 rejected 3-4x2
        plan 2                        ->
        restart_from_snapshot         ->
        plan 2                        -> dlq.t 0-1x1 rejected 3-4x2
        bury t-0 1-2                  -> PLAN_STALE
        bury t-0 0-1                  -> ok
        bury t-0 0-1                  -> PLAN_STALE
        runs t-0                      -> 3..10 3-4 archiving x2, 5-9 acknowledged
        bury t-0 3-4                  -> ok
        runs t-0                      -> 10..10
        plan                          ->
    """,
    "only committed records reach the dead-letter queue": """
        topic dlq.t 1                 ->
        queue dlq.t                   ->
        set errors.deadletterqueue.topic.name dlq.t ->
        log t-0 2 open                ->
        get a t-0                     -> a: 0-11x1
        ack a t-0 0-8 9-11=reject     -> a: ok
        plan                          -> dlq.t 9-9x1 rejected
        bury t-0 9-9                  -> ok
        plan                          ->
        end t-0 dead                  ->
        plan                          ->
        runs t-0                      -> 12..12
    """,
    "a queue that cannot be used loses what it should get": """
        set errors.deadletterqueue.topic.name __dlq -> errors.deadletterqueue.topic.name: DLQ topic name must not s
        set errors.deadletterqueue.topic.name t ->
        get a t-0 2                   -> a: 0-1x1
        ack a t-0 0=reject            -> a: ok
        plan                          -> the name of its dead-letter queue t must begin with dlq. (er
        runs t-0                      -> 1..2 1-1 acquired x1 a
        rule topic.name.prefix        ->
        ack a t-0 1=reject            -> a: ok
        plan                          -> set errors.deadletterqueue.group.enable to true on topic t s
        set errors.deadletterqueue.topic.name dlq.x ->
        get a t-0 2                   -> a: 2-3x1
        ack a t-0 2=reject            -> a: ok
        plan                          -> its dead-letter queue dlq.x does not exist: create it, or se
        rule auto.create.topics.enable true ->
        ack a t-0 3=reject            -> a: ok
        plan                          -> dlq.x new 3-3x1 rejected
        set errors.deadletterqueue.topic.name  ->
        runs t-0                      -> 3..4 3-3 archiving x1
        plan                          -> share group g no longer has a dead-letter queue
        runs t-0                      -> 4..4
    """,
    "a takeover loses nothing": """
        get a t-0 4                   -> a: 0-3x1
        ack a t-0 1                   -> a: ok
        restart_from_snapshot         ->
        runs t-0                      -> 0..4 0-0 acquired x1 a, 1-1 acknowledged, 2-3 acquired x1 a
        ack a t-0 0                   -> a: ok
        after 30s                     ->
        runs t-0                      -> 2..4 2-3 available x1
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_share_groups(script: str) -> None:
    play(script)


@pytest.mark.parametrize(
    ("members", "partitions", "before", "expected"),
    [
        ("abc", 2, {}, {"a": {0, 1}, "b": {0}, "c": {1}}),
        ("ab", 4, {}, {"a": {0, 1}, "b": {2, 3}}),
        ("ab", 1, {}, {"a": {0}, "b": {0}}),
        ("ab", 4, {"b": {0, 1, 2, 3}}, {"a": {2, 3}, "b": {0, 1}}),
        ("ab", 0, {"b": {0}}, {"a": set(), "b": set()}),
    ],
)
def test_members_share_partitions_evenly_and_keep_theirs(
    members: str, partitions: int, before: Mapping[str, set[int]], expected: Mapping[str, set[int]]
) -> None:
    topics = {b"t": partitions} if partitions else {}
    subscribers = [
        Subscriber(
            member_id=name,
            group_instance_id="",
            topics=topics,
            target={b"t": frozenset(before[name])} if name in before else {},
        )
        for name in members
    ]
    targets = assign_simple(subscribers, topics)
    assert {name: set(target.get(b"t", ())) for name, target in targets.items()} == expected


def test_letters_of_one_group_keep_no_other_group_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, a plan has room for one letter, which comes from the group whose last plan is the oldest."""
    monkeypatch.setattr(dead_letters, "_MOST_LETTERS", 1)
    play("""
        topic dlq.t 1                 ->
        queue dlq.t                   ->
        set errors.deadletterqueue.topic.name dlq.t ->
        get a t-0                     -> a: 0-9x1
        ack a t-0 0=reject 1 2=reject 3-9 -> a: ok
        group h                       ->
        set auto.offset.reset earliest ->
        set errors.deadletterqueue.topic.name dlq.t ->
        share b topics=t              -> b: 2 t:0
        get b t-0                     -> b: 0-9x1
        ack b t-0 0-4 5=reject 6-9    -> b: ok
        group g                       ->
        plan                          -> dlq.t 0-0x1 rejected
        bury t-0 0-0                  -> ok
        plan                          -> dlq.t 5-5x1 rejected
        after 1s                      ->
        plan                          -> dlq.t 2-2x1 rejected
        plan                          -> dlq.t 5-5x1 rejected
    """)


def test_one_plan_gives_up_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next plan continues with another partition."""
    monkeypatch.setattr(dead_letters, "_MOST_LETTERS", 1)
    play("""
        topic u 2                     ->
        log u-0 2                     ->
        log u-1 2                     ->
        share a topics=u              -> a: 3 u:0,1
        set errors.deadletterqueue.topic.name other ->
        get a u-0                     -> a: 0-1x1
        get a u-1                     -> a: 0-1x1
        ack a u-0 0-1=reject          -> a: ok
        ack a u-1 0-1=reject          -> a: ok
        plan                          -> the name of its dead-letter queue other must begin with dlq.
        runs u-0                      -> 2..2
        runs u-1                      -> 0..2 0-1 archiving x1
        plan                          -> the name of its dead-letter queue other must begin with dlq.
        runs u-1                      -> 2..2
        plan                          ->
    """)


def test_one_tick_ends_a_bounded_number_of_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next tick continues with another partition, also for the locks of a member that leaves."""
    monkeypatch.setattr(share_records, "_MOST_RUNS", 1)
    play("""
        topic u 2                     ->
        log u-0 2                     ->
        log u-1 2                     ->
        share a topics=u              -> a: 3 u:0,1
        get a u-0                     -> a: 0-1x1
        get a u-1                     -> a: 0-1x1
        after 30s                     ->
        runs u-0                      -> 0..2 0-1 available x1
        runs u-1                      -> 0..2 0-1 acquired x1 a
        after 0s                      ->
        runs u-1                      -> 0..2 0-1 available x1
        get a u-0                     -> a: 0-1x2
        get a u-1                     -> a: 0-1x2
        share a leaves                -> a: -1
        runs u-0                      -> 0..2 0-1 available x2
        runs u-1                      -> 0..2 0-1 acquired x2 a
        after 30s                     ->
        runs u-1                      -> 0..2 0-1 available x2
    """)


def test_different_subscriptions_are_assigned_by_topic() -> None:
    wide, narrow = {b"t": 1, b"u": 2}, {b"u": 2}
    subscribers = [
        Subscriber(member_id=name, group_instance_id="", topics=topics, target={})
        for name, topics in (("a", wide), ("b", narrow))
    ]
    assert assign_simple(subscribers, wide) == {
        "a": {b"t": frozenset({0}), b"u": frozenset({0})},
        "b": {b"u": frozenset({1})},
    }


def test_painting_cuts_and_joins() -> None:
    acquired = Run(0, 10, RecordState.ACQUIRED, 1, "a", 5)
    done = Run(3, 5, RecordState.ACKNOWLEDGED, 1)
    runs = painted([acquired], [done])
    assert [(run.first_offset, run.end_offset) for run in runs] == [(0, 3), (3, 5), (5, 10)]
    assert painted(runs, [Run(5, 6, RecordState.ACKNOWLEDGED, 7)])[1].end_offset == 6
    assert painted(runs, [acquired]) == [acquired]
