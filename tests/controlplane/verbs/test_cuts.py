"""Tests cuts: the largest partition ends that split no transaction (read_cut), and what is remembered for them."""

from itertools import pairwise, product
from operator import le
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import past_cuts, unsettled
from lacuna.controlplane.v1.log_pb2 import (
    DeleteRecords,
    DeleteRecordsPartition,
    ReadAsOf,
    ReadPartitions,
)
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn, EndTxn
from tests.controlplane.verbs.cluster import TRANSACTIONAL, Unchecked

PARTITIONS = ("a-0", "a-1", "b-0")
NAMES = ("x", "y", "z")


class Step(NamedTuple):
    """One step of a producer: it writes a record, or ends its transaction."""

    name: str
    what: str

    @property
    def is_end(self) -> bool:
        return self.what in ("commit", "abort")


class Transfers(Unchecked):
    """Three transactional producers, and three partitions with a list of (transaction, outcome) for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.create("a", 2)
        self.create("b", 1)
        self.log: dict[str, list[list[Any]]] = {each: [] for each in PARTITIONS}
        self.starts = dict.fromkeys(PARTITIONS, 0)
        self.open: dict[str, list[list[Any]]] = {each: [] for each in NAMES}
        self.ids_ = {name: self.initialize(name, 600_000) for name in NAMES}
        self.sequences: dict[tuple[str, str], int] = {}
        self.serial = 0

    def take(self, step: Step) -> None:
        if step.is_end:
            self.end(step.name, committed=step.what == "commit")
        else:
            self.write(step.name, step.what)

    def write(self, name: str, text: str) -> None:
        ids = self.ids_[name]
        self.do(
            "add_partitions_to_txn", AddPartitionsToTxn(partitions=[self.partition(text)], **ids)
        )
        sequence = self.sequences.setdefault((name, text), 0)
        producer = (ids["producer_id"], ids["producer_epoch"])
        offset = self.put(text, producer=producer, sequence=sequence, flags=TRANSACTIONAL)
        assert offset == len(self.log[text])
        self.sequences[name, text] += 1
        if not self.open[name]:
            self.serial += 1
        record = [self.serial if not self.open[name] else self.open[name][0][0], None]
        self.open[name].append(record)
        self.log[text].append(record)

    def end(self, name: str, *, committed: bool) -> None:
        if self.open[name]:
            ended = EndTxn(committed=committed, lease_id=self.lease_id, **self.ids_[name])
            assert not self.do("end_txn", ended).error_code
        for record in self.open[name]:
            record[1] = committed
        self.open[name] = []

    def trim(self, text: str, offset: int) -> None:
        offset = min(offset, len(self.log[text]))
        wanted = DeleteRecordsPartition(partition=self.partition(text), before_offset=offset)
        self.do("delete_records", DeleteRecords(partitions=[wanted]))
        self.starts[text] = max(self.starts[text], offset)

    def read(self, *texts: str) -> Any:
        return self.do(
            "read_cut", ReadPartitions(partitions=map(self.partition, texts or PARTITIONS))
        )

    def cut(self, *texts: str) -> list[int]:
        return [each.end_offset for each in self.read(*texts).partitions]

    def is_cut(self, ends: dict[str, int]) -> bool:
        """Return whether the ends include no open transaction, and all remaining records of a committed one or none."""
        sides: dict[int, set[bool]] = {}
        for text, end in ends.items():
            for offset, (transaction, outcome) in enumerate(self.log[text]):
                if outcome is None and offset < end:
                    return False
                if outcome and offset >= self.starts[text]:
                    sides.setdefault(transaction, set()).add(offset < end)
        return all(len(each) == 1 for each in sides.values())

    def largest(self, *texts: str) -> list[int]:
        """Return the largest cut. It is unique: the larger ends of two cuts form a cut, too."""
        stable = [self.found(each).last_stable_offset for each in texts]
        ranges = [
            range(self.starts[text], end + 1) for text, end in zip(texts, stable, strict=True)
        ]
        found = [
            ends for ends in product(*ranges) if self.is_cut(dict(zip(texts, ends, strict=True)))
        ]
        return list(map(max, zip(*found, strict=True)))


steps = st.builds(
    Step,
    st.sampled_from(NAMES),
    st.sampled_from((*PARTITIONS, *PARTITIONS, "commit", "commit", "abort")),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(steps, min_size=8, max_size=24), st.integers(1, 12), st.booleans())
def test_s3_a_cut_is_the_largest_that_splits_no_transaction(
    taken: list[Step], settle_at: int, restarts: bool
) -> None:
    transfers = Transfers()
    before = {texts: [0, 0, 0] for texts in (PARTITIONS, PARTITIONS[1:])}
    with patch.object(unsettled, "_FEWEST_SPANS", settle_at):
        transfers.state.unsettled.settle_at = settle_at
        for step in taken:
            transfers.take(step)
            if not step.is_end:
                continue
            for texts in before:
                cut = transfers.cut(*texts)
                assert cut == transfers.largest(*texts)
                assert all(map(le, before[texts], cut)), "a cut never goes back"
                before[texts] = cut
            if restarts:
                transfers.state = machine.restore((machine.snapshot(transfers.state),))


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, min_size=10, max_size=30), st.integers(1, 6))
def test_joined_transactions_are_not_split_either(taken: list[Step], most: int) -> None:
    transfers = Transfers()
    with patch.multiple(unsettled, _FEWEST_SPANS=1, MOST_SPANS=most):
        transfers.state.unsettled.settle_at = 1
        for step in taken:
            transfers.take(step)
            assert transfers.state.unsettled.count <= 2 * max(most, len(PARTITIONS)) + len(
                PARTITIONS
            )
        assert transfers.is_cut(dict(zip(PARTITIONS, transfers.cut(), strict=True)))
        for name in NAMES:
            transfers.end(name, committed=True)
        assert transfers.cut() == [len(transfers.log[each]) for each in PARTITIONS]


class Seconds:
    """The cut at each whole second during some transfers, as it was at that time."""

    def __init__(self, transfers: Transfers) -> None:
        self.transfers = transfers
        self.cuts: dict[int, list[int]] = {}

    def pass_by(self, milliseconds: int) -> None:
        began, ended = self.transfers.now_ms, self.transfers.now_ms + milliseconds
        cut = self.transfers.cut()
        self.cuts |= dict.fromkeys(range(began // 1000 + 1, ended // 1000 + 1), cut)
        self.transfers.now_ms = ended

    def as_of(self, second: int, *texts: str) -> Any:
        wanted = map(self.transfers.partition, texts or PARTITIONS)
        asked = ReadAsOf(partitions=wanted, at_ms=second * 1000 + 999, is_cut=True)
        return self.transfers.do("read_as_of", asked)

    def check(self, second: int) -> int:
        """Request the cut of a second. Return the second that the answer applies to, or 0 if none is known."""
        answer = self.as_of(second)
        if not answer.as_of_ms:
            return 0
        found: int = answer.as_of_ms // 1000
        assert [each.end_offset for each in answer.partitions] == self.cuts[found]
        return found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(steps, st.integers(0, 1500)), min_size=8, max_size=24), st.booleans())
def test_s3_a_cut_of_a_past_second_is_the_one_of_that_time(
    taken: list[tuple[Step, int]], restarts: bool
) -> None:
    transfers = Transfers()
    seconds = Seconds(transfers)
    seconds.pass_by(1000)
    for step, milliseconds in taken:
        transfers.take(step)
        seconds.pass_by(milliseconds)
        if restarts:
            transfers.state = machine.restore((machine.snapshot(transfers.state),))
    for second, cut in seconds.cuts.items():
        assert seconds.check(second) == second
        (of_one,) = seconds.as_of(second, "a-1").partitions
        assert of_one.end_offset == cut[PARTITIONS.index("a-1")]


def test_past_cuts_are_bounded_and_fewer_the_older_they_are() -> None:
    transfers = Transfers()
    seconds = Seconds(transfers)
    with patch.multiple(past_cuts, MOST_SECONDS=64, MOST_ENDS=150):
        for number in range(400):
            transfers.write("x", "b-0")  # is open while the others commit
            transfers.write("y", "a-0")
            transfers.write("y", "b-0")
            transfers.end("y", committed=True)
            seconds.pass_by(1000)
            if number % 3 == 0:
                transfers.end("x", committed=True)
                seconds.pass_by(1000)
            assert len(transfers.state.past_cuts.ends) <= 64
            assert transfers.state.past_cuts.count <= 150
        found = {seconds.check(second) for second in seconds.cuts}
    assert 0 in found, "the oldest are not known any more"
    assert max(seconds.cuts) in found
    assert 40 < len(found) < len(seconds.cuts)
    first = seconds.as_of(min(seconds.cuts)).known_from_ms // 1000
    assert seconds.check(first) == first


def test_a_time_that_is_set_back_takes_past_cuts_with_it() -> None:
    transfers = Transfers()
    seconds = Seconds(transfers)
    for _ in range(3):
        transfers.write("x", "b-0")
        transfers.write("y", "a-0")
        transfers.write("y", "b-0")
        transfers.end("y", committed=True)
        seconds.pass_by(2000)
        transfers.end("x", committed=True)
        seconds.pass_by(2000)
    transfers.write("x", "a-1")
    past = transfers.state.past_cuts
    assert len(past.ends) == 6
    now_ms = past.seconds[3] * 1000 + 500
    past.hold_back(now_ms)
    assert (len(past.ends), past.count, past.known_from()) == (0, 0, now_ms // 1000 + 1)


def test_a_cut_ends_before_a_transfer_that_waits_behind_an_open_transaction() -> None:
    transfers = Transfers()
    transfers.write("x", "b-0")  # stays open
    transfers.write("y", "a-0")
    transfers.write("y", "b-0")
    transfers.end("y", committed=True)
    transfers.write("z", "a-1")
    transfers.end("z", committed=True)
    answer = transfers.read()
    assert [each.end_offset for each in answer.partitions] == [0, 1, 0]
    assert [each.last_stable_offset for each in answer.partitions] == [1, 1, 0]
    assert [each.holder for each in answer.partitions] == [1, 0, 1]
    (holder,) = answer.holders
    assert (holder.transactional_id, holder.partitions) == ("x", 2)
    assert (holder.start_time_ms, holder.transaction_timeout_ms) == (transfers.now_ms, 600_000)
    assert transfers.cut("a-0", "a-1") == [1, 1], "among these, nothing is split"
    transfers.end("x", committed=False)
    assert transfers.cut() == [1, 1, 2]
    assert not transfers.read().holders


@pytest.mark.parametrize("order", [1, -1])
def test_a_cut_follows_a_chain_of_transfers(order: int) -> None:
    transfers = Transfers()
    transfers.create("c", 6)
    chain = [f"c-{number}" for number in range(6)][::order]
    transfers.log.update({each: [] for each in chain})
    transfers.write("x", chain[0])
    for pair in pairwise(chain):
        for text in pair:
            transfers.write("y", text)
        transfers.end("y", committed=True)
    assert transfers.cut(*chain) == [0] * 6
    transfers.end("x", committed=True)
    assert transfers.cut(*chain) == [2, 2, 2, 2, 2, 1]


def test_records_that_are_gone_hold_nothing_back() -> None:
    transfers = Transfers()
    transfers.write("y", "a-0")
    transfers.write("y", "a-0")
    transfers.write("x", "b-0")
    transfers.write("y", "b-0")
    transfers.end("y", committed=True)
    transfers.write("z", "a-0")
    transfers.end("z", committed=True)
    assert transfers.cut() == [0, 0, 0]
    transfers.trim("a-0", 1)
    assert transfers.cut() == [1, 0, 0], "one of its records is left"
    transfers.trim("a-0", 2)
    assert transfers.cut() == [3, 0, 0]
    transfers.trim("b-0", 2)
    assert transfers.cut() == [3, 0, 2]


def test_a_partition_that_does_not_exist_has_no_end() -> None:
    answer = Transfers().read("a-0", "a-7", "c-0")
    assert [each.error_code for each in answer.partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_one_producer_leaves_nothing_to_remember() -> None:
    transfers = Transfers()
    for _ in range(5):
        transfers.write("x", "a-0")
        transfers.write("x", "b-0")
        transfers.end("x", committed=True)
    assert not transfers.state.unsettled.transactions
