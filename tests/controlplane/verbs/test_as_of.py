"""Tests what a read_committed consumer could see at a time in the past: ReadAsOf, and the histories behind it."""

from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.history import MOST_ENTRIES, History
from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, CreatePartitionsTopic
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import (
    DeleteRecords,
    DeleteRecordsPartition,
    ReadAsOf,
    ReadPartitions,
)
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn
from tests.controlplane.verbs.cluster import TRANSACTIONAL, Cluster, Unchecked


class Past(Cluster):
    """A topic `a` with two partitions, and a transactional producer `t`."""

    def __init__(self) -> None:
        super().__init__()
        self.create("a", 2)
        self.become("t")
        self.now_ms += 5_000

    def become(self, transactional_id: str) -> None:
        """Use this producer for writes from now on."""
        self.ids_ = self.initialize(transactional_id, 600_000)
        self.sequences: dict[str, int] = {}

    def begin(self, *partitions: str) -> None:
        for each in partitions:
            added = AddPartitionsToTxn(partitions=[self.partition(each)], **self.ids_)
            self.do("add_partitions_to_txn", added)
            sequence = self.sequences.setdefault(each, 0)
            producer = (self.ids_["producer_id"], self.ids_["producer_epoch"])
            base = self.put(each, producer=producer, sequence=sequence, flags=TRANSACTIONAL)
            assert isinstance(base, int)
            self.sequences[each] += 1

    def end(self, *, committed: bool) -> None:
        self.do("end_txn", EndTxn(committed=committed, lease_id=self.lease_id, **self.ids_))

    def read(self, at_ms: int, *partitions: str) -> Any:
        wanted = map(self.partition, partitions or ("a-0", "a-1"))
        return self.do("read_as_of", ReadAsOf(partitions=wanted, at_ms=at_ms))

    def ends(self, at_ms: int, *partitions: str) -> list[int]:
        return [each.end_offset for each in self.read(at_ms, *partitions).partitions]


def test_a_transaction_that_was_open_is_not_seen_in_any_partition() -> None:
    past = Past()
    past.put("a-0", 3)
    past.now_ms += 2_000
    past.begin("a-0", "a-1")
    past.now_ms += 10_000
    past.put("a-1", 4)  # behind it
    past.now_ms += 10_000
    opened = past.now_ms
    past.now_ms += 60_000
    past.end(committed=True)
    past.now_ms += 3_000
    assert past.ends(opened) == [3, 0]
    assert past.ends(past.now_ms) == [4, 5]
    answer = past.read(opened)
    assert answer.as_of_ms == opened // 1000 * 1000
    assert [each.last_stable_offset for each in answer.partitions] == [4, 5]
    past.check()


def test_a_committed_transaction_waits_behind_an_open_one_where_that_began() -> None:
    """As with Kafka's consumers, no vector of last stable offsets shows it completely until then."""
    past = Past()
    past.begin("a-1")  # by `t`, which stays open
    past.become("transfer")
    past.begin("a-0", "a-1")
    past.end(committed=True)
    past.now_ms += 5_000
    assert past.ends(past.now_ms) == [1, 0]
    past.check()


def test_an_aborted_transaction_only_moves_the_end() -> None:
    past = Past()
    past.begin("a-0")
    past.now_ms += 10_000
    before = past.now_ms
    past.now_ms += 1_000
    past.end(committed=False)
    past.now_ms += 10_000
    assert past.ends(before, "a-0") == [0]
    assert past.ends(past.now_ms, "a-0") == [1]
    assert past.found("a-0").dead.pairs()
    past.check()


def test_a_log_start_that_passes_an_open_transaction_moves_it_too() -> None:
    past = Past()
    past.begin("a-0")
    past.put("a-0", 9)
    past.now_ms += 10_000
    before = past.now_ms
    past.now_ms += 1_000
    deleted = DeleteRecordsPartition(partition=past.partition("a-0"), before_offset=5)
    past.do("delete_records", DeleteRecords(partitions=[deleted]))
    past.now_ms += 10_000
    assert past.ends(before, "a-0") == [0]
    answer = past.read(past.now_ms, "a-0").partitions[0]
    assert (answer.end_offset, answer.log_start_offset, answer.last_stable_offset) == (5, 5, 5)
    past.check()


def test_a_time_before_the_topic_is_not_known() -> None:
    past = Past()
    answer = past.read(900_000)
    assert answer.as_of_ms == 0
    assert answer.known_from_ms == 1_000_000
    assert not answer.partitions
    assert past.read(1_000_000).as_of_ms == 1_000_000
    assert past.ends(1_000_000) == [0, 0]


def test_a_partition_that_was_added_later_was_empty_before() -> None:
    past = Past()
    past.put("a-0", 3)
    past.now_ms += 5_000
    before = past.now_ms
    past.now_ms += 5_000
    grown = CreatePartitions(topics=[CreatePartitionsTopic(name="a", partition_count=3)])
    past.do("create_partitions", grown)
    past.put("a-2", 3)
    past.now_ms += 5_000
    assert past.ends(before, "a-0", "a-2") == [3, 0]
    assert past.ends(past.now_ms, "a-0", "a-2") == [3, 3]
    past.check()


def test_a_time_to_come_is_now() -> None:
    past = Past()
    past.put("a-0", 3)
    past.now_ms += 5_400
    answer = past.read(past.now_ms + 3_600_000, "a-0")
    assert answer.as_of_ms == past.now_ms - 400
    assert answer.partitions[0].end_offset == 3


def test_a_partition_that_does_not_exist() -> None:
    past = Past()
    answers = past.read(past.now_ms, "a-0", "a-7", "b-0").partitions
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answers] == [0, unknown, unknown]
    histories = past.do("read_histories", ReadPartitions(partitions=[past.partition("b-0")]))
    assert not histories.histories[0].settled_ms


@pytest.mark.slow
def test_a_history_is_replayed_restored_and_bounded() -> None:
    past = Unchecked()
    past.create("a")
    for _ in range(MOST_ENTRIES + 300):
        past.now_ms += 1_000
        past.put("a-0")
    history = past.found("a-0").history
    assert len(history.seconds) < MOST_ENTRIES
    assert history.thinned_at
    past.check()
    wanted = ReadPartitions(partitions=[past.partition("a-0")])
    (message,) = past.do("read_histories", wanted).histories
    assert History.of(message).seconds == history.seconds


def test_records_of_the_journal_alone_give_the_history() -> None:
    past = Past()
    for _ in range(20):
        past.now_ms += 1_700
        past.put("a-0", 2)
    replayed = machine.State()
    for data in past.journal:
        machine.replay(replayed, JournalRecord.FromString(data))
    (one,) = (each for key, each in replayed.partitions.items() if key[1] == 0)
    assert one.history.message() == past.found("a-0").history.message()
