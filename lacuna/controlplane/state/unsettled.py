"""Cuts: one end per partition, such that every committed transaction lies wholly before or wholly after the ends.

Last stable offsets do not form a cut. A committed transaction may lie below the last stable offset of one partition,
and above that of another in which an earlier transaction is open. The largest cut is found by lowering: each
transaction with records at or above an end moves the ends of its other partitions down to its own first records, until
nothing moves.

A transaction that lies wholly below the cut of all partitions also lies below the cut of any subset, and later cuts are
never lower. So only the other transactions need to be remembered (`Unsettled`).
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import Partition

#: The offsets [first, end) from a transaction's first record to its last, by partition.
Spans: TypeAlias = Mapping[PartitionKey, tuple[int, int]]

#: The maximum number of spans remembered after settling, unless there are more partitions. Twice as many trigger the
#: next settling, which then takes about 40 ms.
MOST_SPANS: Final = 10_000
#: The minimum number of spans worth settling.
_FEWEST_SPANS: Final = 256


class Cut(NamedTuple):
    """The ends of a cut. `above` contains the indexes of the transactions after these ends.

    `holders` maps each partition with a lowered end to the partition whose open transaction is the reason.
    """

    ends: dict[PartitionKey, int]
    holders: dict[PartitionKey, PartitionKey]
    above: set[int]


def cut_of(partitions: Mapping[PartitionKey, Partition], transactions: Sequence[Spans]) -> Cut:
    """Return the largest cut of these partitions, in time linear in the number of spans."""
    ends = {key: each.last_stable_offset for key, each in partitions.items()}
    by_end = _by_end(partitions, transactions)
    holders: dict[PartitionKey, PartitionKey] = {}
    above: set[int] = set()
    lowered = list(by_end)
    while lowered:
        key = lowered.pop()
        rows = by_end[key]
        while rows and rows[-1][0] > ends[key]:
            _, index = rows.pop()
            if index in above:
                continue
            above.add(index)
            for other, span in transactions[index].items():
                partition = partitions.get(other)
                if partition is None or span[1] <= partition.log_start_offset:
                    continue
                end = max(span[0], partition.log_start_offset)
                if end < ends[other]:
                    ends[other] = end
                    holders[other] = holders.get(key, key)
                    lowered.append(other)
    return Cut(ends, holders, above)


def _by_end(
    partitions: Mapping[PartitionKey, Partition], transactions: Sequence[Spans]
) -> dict[PartitionKey, list[tuple[int, int]]]:
    """Return each partition's transactions as sorted (end, index) pairs."""
    found: dict[PartitionKey, list[tuple[int, int]]] = {}
    for index, spans in enumerate(transactions):
        for key, (_, end) in spans.items():
            if key in partitions:
                found.setdefault(key, []).append((end, index))
    for rows in found.values():
        rows.sort()
    return found


class Unsettled:
    """Committed transactions before which a cut may have to end, by serial number, in the order in which they ended.

    Once there are too many, the earliest are merged and count as one. A cut then ends before all or none of them. This
    is correct, but the cut may be lower than necessary. Only replay modifies this.
    """

    __slots__ = ("count", "settle_at", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[int, Spans] = {}
        self.count = 0  # the number of spans
        #: The number of spans at which settled transactions are dropped.
        self.settle_at = _FEWEST_SPANS

    def add(
        self,
        transaction: int,
        ranges: "Mapping[PartitionKey, array[int]]",
        partitions: Mapping[PartitionKey, Partition],
    ) -> None:
        """Remember a committed transaction, unless no cut can split it.

        `ranges` holds its offsets in each partition as first, end, first, end, …
        """
        spans = {key: (each[0], each[-1]) for key, each in ranges.items() if each}
        if not self.transactions and not _is_above(spans, partitions):
            return
        if len(spans) == 1 and all(len(each) <= 2 for each in ranges.values()):
            return  # no cut ends within one range
        self.put(transaction, spans)
        if self.count >= self.settle_at:
            self.settle(partitions)

    def put(self, transaction: int, spans: Spans) -> None:
        self.transactions[transaction] = spans
        self.count += len(spans)

    def settle(self, partitions: Mapping[PartitionKey, Partition]) -> None:
        """Drop transactions below the cut of all partitions. If many remain, join the earlier half."""
        transactions = list(self.transactions.values())
        keys = {key for spans in transactions for key in spans}
        there = {key: partitions[key] for key in keys if key in partitions}
        above = cut_of(there, transactions).above
        left = [each for index, each in enumerate(self.transactions.items()) if index in above]
        if sum(len(spans) for _, spans in left) > MOST_SPANS and len(left) > 1:
            half = -(-len(left) // 2)
            left = [(left[0][0], _joined(spans for _, spans in left[:half])), *left[half:]]
        self.transactions = {}
        self.count = 0
        for transaction, spans in left:
            self.put(transaction, spans)
        self.settle_at = max(_FEWEST_SPANS, 2 * self.count)

    def pieces(self, most: int) -> Iterator[list[tuple[int, Spans]]]:
        """Yield all transactions in order, up to `most` at a time."""
        rows = iter(self.transactions.items())
        while some := list(islice(rows, most)):
            yield some


def _is_above(spans: Spans, partitions: Mapping[PartitionKey, Partition]) -> bool:
    """Whether a transaction has records at or above any last stable offset."""
    for key, (_, end) in spans.items():
        partition = partitions.get(key)
        if partition is not None and partition.ongoing and end > partition.last_stable_offset:
            return True
    return False


def _joined(transactions: Iterable[Spans]) -> Spans:
    """Join several transactions into one."""
    joined: dict[PartitionKey, tuple[int, int]] = {}
    for spans in transactions:
        for key, (first, end) in spans.items():
            known = joined.get(key, (first, end))
            joined[key] = (min(first, known[0]), max(end, known[1]))
    return joined
