"""Compares the state machine with a naive model of the log that has one list entry per record (S1, S3, S4, S5, S14)."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lacuna.controlplane import machine
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.v1.log_pb2 import (
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapSegment,
)
from tests.controlplane.verbs import compacting
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster
from tests.controlplane.verbs.script import VERBS

PARTITIONS = ["a-0", "a-1", "b-0"]
NAMES = ["x", "y"]


@dataclass
class Transaction:
    """The transaction, if any, that an entry of the log belongs to."""

    outcome: bool | None = None
    added: set[str] = field(default_factory=set)


@dataclass
class Producer:
    """The model's state for a transactional id."""

    producer_id: int
    producer_epoch: int = 0
    transaction: Transaction | None = None
    last_outcome: bool | None = None
    #: (producer id, epoch) whose EndTxn under TV2 gave the current one
    ended: tuple[int, int] | None = None
    is_ended_by_coordinator: bool = False
    sequences: dict[str, int] = field(default_factory=dict)

    def end(self, committed: bool, *, bumps: bool, is_by_coordinator: bool = False) -> None:
        if self.transaction is not None:
            self.transaction.outcome = committed
        self.transaction = None
        self.last_outcome = committed
        if bumps:
            self.ended = (self.producer_id, self.producer_epoch)
            self.is_ended_by_coordinator = is_by_coordinator
            self.producer_epoch += 1
            self.sequences = {}


class LogModel(RuleBasedStateMachine):
    """Rules act on both and compare every answer. The invariant compares what readers see."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.create("a", 2)
        self.cluster.create("b", 1)
        self.log: dict[str, list[Transaction | None]] = {text: [] for text in PARTITIONS}
        self.starts = dict.fromkeys(PARTITIONS, 0)
        self.producers: dict[str, Producer] = {}
        self.next_producer_id = 1
        self.planned: list[SwapExtents] = []  # by jobs that are still at work

    def ask(self, verb: str, *words: str) -> str:
        return VERBS[verb](self.cluster, *words)

    def append(self, text: str, transaction: Transaction | None, count: int) -> int:
        base_offset = len(self.log[text])
        self.log[text] += [transaction] * count
        return base_offset

    @rule(name=st.sampled_from(NAMES))
    def init(self, name: str) -> None:
        found = self.producers.get(name)
        if found is None:
            found = self.producers[name] = Producer(self.next_producer_id)
            self.next_producer_id += 1
        else:
            found.end(False, bumps=True)
        found.last_outcome = found.ended = None
        expected = f"{found.producer_id}/{found.producer_epoch}"
        assert self.ask("init", name) == expected

    @rule(text=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def put_plain(self, text: str, count: int) -> None:
        assert self.cluster.put(text, count) == self.append(text, None, count)

    @precondition(lambda self: self.producers)
    @rule(
        data=st.data(),
        text=st.sampled_from(PARTITIONS),
        count=st.integers(1, 3),
        is_tv2=st.booleans(),
        epochs_ago=st.sampled_from([0, 0, 0, 1]),
    )
    def put_transactional(
        self, data: st.DataObject, text: str, count: int, is_tv2: bool, epochs_ago: int
    ) -> None:
        found = self.producers[data.draw(st.sampled_from(sorted(self.producers)))]
        epoch = found.producer_epoch - epochs_ago
        got = self.cluster.put(
            text,
            count,
            producer=(found.producer_id, epoch),
            sequence=found.sequences.get(text, 0),
            flags=TRANSACTIONAL | (ADDS_PARTITION if is_tv2 else 0),
        )
        if epochs_ago:
            assert got == "INVALID_PRODUCER_EPOCH"
            return
        if not is_tv2 and (found.transaction is None or text not in found.transaction.added):
            assert got == "INVALID_TXN_STATE"
            return
        if found.transaction is None:
            found.transaction = Transaction()
        found.transaction.added.add(text)
        assert got == self.append(text, found.transaction, count)
        found.sequences[text] = found.sequences.get(text, 0) + count

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), text=st.sampled_from(PARTITIONS))
    def add_partition(self, data: st.DataObject, text: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.producers)))
        found = self.producers[name]
        assert self.ask("add", name, f"{found.producer_id}/{found.producer_epoch}", text) == "NONE"
        if found.transaction is None:
            found.transaction = Transaction()
        found.transaction.added.add(text)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), committed=st.booleans(), ago=st.sampled_from([0, 0, 1]))
    def end_tv1(self, data: st.DataObject, committed: bool, ago: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.producers)))
        found = self.producers[name]
        producer = f"{found.producer_id}/{found.producer_epoch - ago}"
        got = self.ask("end1", name, producer, "commit" if committed else "abort")
        if ago:
            assert got == "PRODUCER_FENCED"
        elif found.transaction is not None:
            assert got == producer
            found.end(committed, bumps=False)
        else:
            assert got == (producer if found.last_outcome is committed else "INVALID_TXN_STATE")

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), committed=st.booleans(), ago=st.sampled_from([0, 0, 1, 2]))
    def end_tv2(self, data: st.DataObject, committed: bool, ago: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.producers)))
        found = self.producers[name]
        given = (found.producer_id, found.producer_epoch - ago)
        got = self.ask("end2", name, f"{given[0]}/{given[1]}", "commit" if committed else "abort")
        if given == found.ended and found.transaction is None:
            same = found.last_outcome is committed
            current = f"{found.producer_id}/{found.producer_epoch}"
            fenced = "PRODUCER_FENCED" if found.is_ended_by_coordinator else "INVALID_TXN_STATE"
            assert got == (current if same else fenced)
        elif ago:
            assert got == "PRODUCER_FENCED"
        elif found.transaction is None and committed:
            assert got == "INVALID_TXN_STATE"
        else:
            found.end(committed, bumps=True)
            assert got == f"{found.producer_id}/{found.producer_epoch}"

    @rule(text=st.sampled_from(PARTITIONS), offset=st.integers(0, 12))
    def delete_records(self, text: str, offset: int) -> None:
        got = self.ask("delete-records", text, str(offset))
        if offset > len(self.log[text]):
            assert got == "OFFSET_OUT_OF_RANGE"
            return
        self.starts[text] = max(offset, self.starts[text])
        assert got == str(self.starts[text])

    @rule(name=st.sampled_from(["a", "b"]))
    def recreate_topic(self, name: str) -> None:
        assert self.ask("delete-topic", name) == "NONE"
        self.cluster.create(name, 2 if name == "a" else 1)
        for text in PARTITIONS:
            if text.startswith(name):
                self.log[text], self.starts[text] = [], 0
                for found in self.producers.values():
                    found.sequences.pop(text, None)
                    if found.transaction is not None:
                        found.transaction.added.discard(text)

    @rule()
    def time_out(self) -> None:
        self.ask("clock", "+60000")
        for found in self.producers.values():
            if found.transaction is not None:
                found.end(False, bumps=True, is_by_coordinator=True)

    @rule()
    def restart(self) -> None:
        self.cluster.state = machine.restore((machine.snapshot(self.cluster.state),))

    @rule()
    def merge(self) -> None:
        cluster = self.cluster
        command = PlanMerge(
            lease_id=cluster.lease_id, max_bytes=1 << 30, small_bytes=1000, min_extents=1
        )
        planned = cluster.do("plan_merge", command).partitions
        cluster.sequence += 1
        segment = SegmentId(lease_id=cluster.lease_id, sequence=cluster.sequence)
        swaps = [compacting.rewritten(each, segment, joins=False) for each in planned]
        new = SwapSegment(segment=segment, object_size=1 << 30)
        swap = SwapExtents(segments=[new], partitions=swaps)
        assert set(cluster.do("swap_extents", swap).error_codes) <= {0}

    @rule(rewrites_all=st.booleans(), most=st.sampled_from([0, 0, 2]))
    def plan_compaction(self, rewrites_all: bool, most: int) -> None:
        """Plan a compaction. A job takes some time before it swaps, and anything may happen in between."""
        wanted = {"rewrites_all": rewrites_all, "max_extents": most}
        found = compacting.plan(self.cluster, *PARTITIONS, **wanted)
        # An extent over a hole would say that its offsets are there: each by itself.
        self.planned.append(compacting.swap_of(self.cluster, *found.ranges, joins=False))

    @precondition(lambda self: self.planned)
    @rule(data=st.data(), again=st.booleans())
    def swap_compacted(self, data: st.DataObject, again: bool) -> None:
        command = data.draw(st.sampled_from(self.planned))
        told = compacting.swap(self.cluster, command)
        assert set(told) <= {"NONE", "PLAN_STALE", "UNKNOWN_TOPIC_OR_PARTITION"}
        if again:
            assert compacting.swap(self.cluster, command) == told, "a retry hears the same"

    @invariant()
    def readers_see_what_the_model_says(self) -> None:
        for text in PARTITIONS:
            found, log, start = self.cluster.found(text), self.log[text], self.starts[text]
            undecided = [offset for offset, each in enumerate(log) if each and each.outcome is None]
            lso = max(min(undecided, default=len(log)), start)
            assert (found.log_start_offset, found.last_stable_offset, found.high_watermark) == (
                start,
                lso,
                len(log),
            )
            committed = [
                offset
                for offset in range(start, lso)
                if (entry := log[offset]) is None or entry.outcome is True
            ]
            assert _readable(found, start, lso) == committed


def _readable(found: Partition, start: int, lso: int) -> list[int]:
    extents = zip(found.extents.base_offsets, found.extents.next_offsets, strict=True)
    offsets = [offset for base, end in extents for offset in range(base, end)]
    return [
        offset for offset in offsets if start <= offset < lso and found.dead.skip(offset) == offset
    ]


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
