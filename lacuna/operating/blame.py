"""Finds the transactions that hold back partitions, the groups waiting for them, and what would be released if they
ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lacuna.controlplane.client import ControlClient, read_cut
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.behind import behind
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import (
    ActiveProducer,
    DescribeTransactions,
    TransactionDescription,
)
from lacuna.operating import questions
from lacuna.operating.control import topic_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Blamed:
    """A partition whose readers or exports are waiting for a transaction that began at `start_time_ms`.

    `waiting` counts the offsets at and above the last stable offset; `own` counts those of the transaction itself. Up
    to the next open transaction, a read_committed consumer would receive `by_commit` offsets if this transaction
    committed now, and `by_abort` if it aborted. `groups` are those that have read everything before the transaction.

    An export of the topic ends at `cut`. The cut is below the last stable offset if a transaction that committed before
    that offset also wrote to another partition, where its records wait for this transaction.
    """

    topic: str
    partition: int
    transactional_id: str
    producer_id: int
    start_time_ms: int
    timeout_ms: int
    last_stable_offset: int
    waiting: int = 0
    own: int = 0
    by_commit: int = 0
    by_abort: int = 0
    groups: Sequence[str] = ()
    cut: int | None = None


async def blame(control: ControlClient, topic: str) -> list[Blamed]:
    """Return the topic's partitions with waiting readers or exports. Raises UserError, ControlPlaneUnavailable."""
    found = topic_named(await questions.current(control), topic)
    keys = questions.partitions_of([found])
    cut = await read_cut(control, [key_of(key) for key in keys])
    blamed = {each.partition: each for each in await blame_in(control, keys)}
    for (_, partition), end in cut.partitions.items():
        holder = cut.holder_of((found.topic_id, partition))
        if partition in blamed:
            blamed[partition] = replace(blamed[partition], cut=end.end_offset)
        elif holder is not None:
            blamed[partition] = Blamed(
                topic=topic,
                partition=partition,
                transactional_id=holder.transactional_id,
                producer_id=holder.producer_id,
                start_time_ms=holder.start_time_ms,
                timeout_ms=holder.transaction_timeout_ms,
                last_stable_offset=end.last_stable_offset,
                cut=end.end_offset,
            )
    return [blamed[partition] for partition in sorted(blamed)]


async def blame_in(
    control: ControlClient, keys: Sequence[TopicPartition], most_groups: int | None = None
) -> list[Blamed]:
    """Return the partitions among `keys` with waiting readers, in the order of `keys`.

    Examines at most `most_groups` groups. Raises ControlPlaneUnavailable.
    """
    transactions = await _transactions(control)
    groups = await _positions(control, keys, most_groups)
    producers = await questions.producers_in(control, keys)
    blamed: list[Blamed] = []
    for key, described in zip(keys, producers, strict=True):
        open_ones = sorted(
            (each for each in described.producers if each.current_txn_start_offset >= 0),
            key=lambda each: each.current_txn_start_offset,
        )
        topic = control.cluster.topics_by_id.get(key.topic_id)
        if described.error_code != ErrorCode.NONE or not open_ones or topic is None:
            continue
        view = control.partition(key.topic_id, key.partition)
        await view.ready()
        holder = transactions.get(open_ones[0].producer_id, TransactionDescription())
        positions = groups.get(key_of(key), {})
        blamed.append(_blamed(topic.name, view, open_ones, holder, positions))
    return blamed


def _blamed(
    topic: str,
    view: PartitionView,
    open_ones: Sequence[ActiveProducer],
    holder: TransactionDescription,
    positions: dict[str, int],
) -> Blamed:
    first = open_ones[0].current_txn_start_offset
    end = open_ones[1].current_txn_start_offset if len(open_ones) > 1 else view.high_watermark
    own = _own(view, open_ones[0].producer_id, first, view.high_watermark)
    by_commit = behind(view, first, end).offsets
    before = {group: behind(view, position, first).offsets for group, position in positions.items()}
    return Blamed(
        topic=topic,
        partition=view.partition,
        transactional_id=holder.transactional_id,
        producer_id=open_ones[0].producer_id,
        start_time_ms=holder.start_time_ms,
        timeout_ms=holder.transaction_timeout_ms,
        last_stable_offset=view.last_stable_offset,
        waiting=behind(view, first, view.high_watermark).offsets,
        own=own,
        by_commit=by_commit,
        by_abort=by_commit - _own(view, open_ones[0].producer_id, first, end),
        groups=sorted(group for group, left in before.items() if not left),
    )


def _own(view: PartitionView, producer_id: int, first: int, end: int) -> int:
    """Return how many offsets in [first, end) belong to the producer's open transaction."""
    extents = view.extents
    start, stop = extents.first_at_or_after(first), extents.first_at_or_after(end)
    return sum(
        extents.next_offsets[index] - extents.base_offsets[index]
        for index in range(start, stop)
        if extents.producer_ids[index] == producer_id and extents.transactions[index]
    )


async def _transactions(control: ControlClient) -> dict[int, TransactionDescription]:
    """Return all ongoing transactions by producer id."""
    listed = await questions.transactions(control, states=["Ongoing"])
    ids = [each.transactional_id for each in listed]
    described = await control.call(
        Command(describe_transactions=DescribeTransactions(transactional_ids=ids))
    )
    return {each.producer_id: each for each in described.transactions_described.transactions}


async def _positions(
    control: ControlClient, keys: Sequence[TopicPartition], most_groups: int | None
) -> dict[PartitionKey, dict[str, int]]:
    """Return committed offsets by partition and group."""
    ids = [each.group_id for each in await questions.groups(control)][:most_groups]
    fetched_groups = await questions.offsets_of(control, ids, keys)
    positions: dict[PartitionKey, dict[str, int]] = {}
    for group_id, fetched in zip(ids, fetched_groups, strict=True):
        for each in fetched.offsets:
            if each.offset >= 0:
                positions.setdefault(key_of(each.partition), {})[group_id] = each.offset
    return positions
