"""Gaps: failed batches that have not been sent again yet. Later batches from their producers must wait (S12).

Batches that are queued when a flush fails fail with it, but others may still be on their way. The control plane accepts
any first sequence of a producer that it does not know in a partition (S10), so such a late batch could be committed
before the failed ones, which could then never be committed. The agent holds it back until the failed batch has been
sent again, or until the control plane reports that the producer continued through another agent. Other agents do not
know about the gap, a limitation that Kafka also has (docs/protocol.md).
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.agent.produce.buffer import NO_PRODUCER_ID, NOT_PERSISTED, PendingBatch, ProducerKey
from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import DescribeProducers

_SEQUENCES: Final = 1 << 31
# A client that has not sent its batch again after this time has abandoned it (delivery.timeout.ms).
_HOLD_SECONDS: Final = 120.0
_MAX_GAPS: Final = 10_000
#: The epoch and last sequence of a producer that the control plane does not know in a partition.
_UNKNOWN: Final = (-1, -1)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The sequence of a failed batch, and the loop time until which later batches are held back."""

    base_sequence: int
    until: float


class Gaps:
    """The gaps of all producers. There are at most `_MAX_GAPS`, and the oldest are dropped first."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control
        self._gaps: OrderedDict[ProducerKey, _Gap] = OrderedDict()

    def __len__(self) -> int:
        return len(self._gaps)

    def mark(self, batches: Iterable[PendingBatch], now: float) -> None:
        """Remember the first failed batch of each producer and partition as a gap. `batches` are in order.

        `now` is loop time.
        """
        seen: set[ProducerKey] = set()
        for batch in batches:
            key = batch.producer_key
            if batch.producer_id == NO_PRODUCER_ID or key in seen:
                continue
            seen.add(key)
            self._gaps[key] = _Gap(batch.base_sequence, now + _HOLD_SECONDS)
            self._gaps.move_to_end(key)
        while len(self._gaps) > _MAX_GAPS:
            self._gaps.popitem(last=False)

    def concern(self, batch: PendingBatch) -> bool:
        """Whether the batch's producer has a gap in that partition."""
        return bool(self._gaps) and batch.producer_key in self._gaps

    async def hold_back(self, batches: Iterable[PendingBatch], now: float) -> None:
        """Settle the batches that must not be committed before a missing one. The client sends them again after it."""
        ahead = [batch for batch in batches if self._is_ahead(batch, now)]
        if not ahead:
            return
        try:
            known = await self._known(list(dict.fromkeys(batch.key for batch in ahead)))
        except ControlPlaneUnavailable:
            known = {}
        for batch in ahead:
            epoch, last = known.get((batch.producer_id, batch.key), _UNKNOWN)
            if epoch > batch.producer_epoch:
                # No batch with the old epoch is accepted any more, and the client is waiting for the answer.
                self._gaps.pop(batch.producer_key, None)
                continue
            if epoch < batch.producer_epoch or _is_behind(last, batch.base_sequence - 1):
                batch.settle(NOT_PERSISTED)
                continue
            # The missing batch was sent again through another agent, and this batch follows it.
            self._gaps.pop(batch.producer_key, None)
            known[batch.producer_id, batch.key] = epoch, _last_sequence(batch)

    def _is_ahead(self, batch: PendingBatch, now: float) -> bool:
        """Whether a batch has arrived ahead of the missing one. The missing batch itself closes the gap."""
        key = batch.producer_key
        gap = self._gaps.get(key)
        if gap is None:
            return False
        if gap.until < now or gap.base_sequence == batch.base_sequence:
            del self._gaps[key]
            return False
        return _is_behind(gap.base_sequence, batch.base_sequence)

    async def _known(
        self, keys: Sequence[PartitionKey]
    ) -> dict[tuple[int, PartitionKey], tuple[int, int]]:
        """Fetch the epoch and last sequence of each producer in these partitions from the control plane."""
        asked = [TopicPartition(topic_id=key[0], partition=key[1]) for key in keys]
        command = Command(describe_producers=DescribeProducers(partitions=asked))
        reply = (await self._control.call(command)).producers_described
        return {
            (each.producer_id, key): (each.producer_epoch, each.last_sequence)
            for key, partition in zip(keys, reply.partitions, strict=True)
            if partition.error_code == ErrorCode.NONE
            for each in partition.producers
        }


def _last_sequence(batch: PendingBatch) -> int:
    return (batch.base_sequence + batch.record_count - 1) % _SEQUENCES


def _is_behind(sequence: int, other: int) -> bool:
    """Whether `sequence` comes before `other`; sequences wrap from 2^31-1 to 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
