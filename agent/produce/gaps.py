"""Producers whose batch failed and has not come again: what they sent behind it must wait (S12).

Batches that were queued when a flush failed fail with it. Others are still on the wire then. The
control plane takes any first sequence of a producer that it does not know in a partition (S10), so
such a late batch could get in before the ones that failed, which then never could. It is held back
here until the failed one has come again, or until the control plane says that the producer went on
somewhere else. Another agent knows nothing of it: a limit that Kafka has too (docs/protocol.md).
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agent.produce.buffer import NO_PRODUCER_ID, NOT_PERSISTED, PartitionKey, PendingBatch
from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import DescribeProducers

if TYPE_CHECKING:
    from controlplane.client import ControlClient

_SEQUENCES: Final = 1 << 31
# A client that has not sent its batch again by then has given it up (delivery.timeout.ms).
_HOLD_SECONDS: Final = 120.0
_MAX_GAPS: Final = 10_000

#: producer id, epoch, partition
_GapKey: TypeAlias = tuple[int, int, PartitionKey]


@dataclass(frozen=True, slots=True)
class _Gap:
    """The sequence that failed, and until when (loop time) later ones are held back."""

    base_sequence: int
    until: float


class Gaps:
    """The sequences that are missing, at most `_MAX_GAPS` of them; the oldest are given up first."""

    def __init__(self, control: "ControlClient") -> None:
        self._control = control
        self._gaps: OrderedDict[_GapKey, _Gap] = OrderedDict()

    def __len__(self) -> int:
        return len(self._gaps)

    def mark(self, batches: Iterable[PendingBatch], now: float) -> None:
        """These failed, in this order: the first of each producer and partition is missing."""
        seen: set[_GapKey] = set()
        for batch in batches:
            key = _key_of(batch)
            if batch.producer_id == NO_PRODUCER_ID or key in seen:
                continue
            seen.add(key)
            self._gaps[key] = _Gap(batch.base_sequence, now + _HOLD_SECONDS)
            self._gaps.move_to_end(key)
        while len(self._gaps) > _MAX_GAPS:
            self._gaps.popitem(last=False)

    def concern(self, batches: Iterable[PendingBatch]) -> bool:
        """Whether any of them belongs to a producer with a gap in that partition."""
        return bool(self._gaps) and any(_key_of(batch) in self._gaps for batch in batches)

    async def hold_back(self, batches: Iterable[PendingBatch], now: float) -> None:
        """Settle those that must not get in now; the client sends them again behind the missing."""
        ahead = [batch for batch in batches if self._is_ahead(batch, now)]
        if not ahead:
            return
        try:
            last_sequences = await self._last_sequences({batch.key for batch in ahead})
        except ControlPlaneUnavailable:
            last_sequences = {}
        for batch in ahead:
            last = last_sequences.get(_key_of(batch))
            if last is None or _is_behind(last, batch.base_sequence - 1):
                batch.settle(NOT_PERSISTED)
                continue
            # The missing one was sent again through another agent; this one follows.
            self._gaps.pop(_key_of(batch), None)
            last_sequences[_key_of(batch)] = _last_sequence(batch)

    def _is_ahead(self, batch: PendingBatch, now: float) -> bool:
        """Whether a batch comes before the missing one does; what is missing closes its gap."""
        key = _key_of(batch)
        gap = self._gaps.get(key)
        if gap is None:
            return False
        if gap.until < now or gap.base_sequence == batch.base_sequence:
            del self._gaps[key]
            return False
        return _is_behind(gap.base_sequence, batch.base_sequence)

    async def _last_sequences(self, keys: set[PartitionKey]) -> dict[_GapKey, int]:
        """What the control plane knows of the producers of these partitions."""
        asked = [TopicPartition(topic_id=key[0], partition=key[1]) for key in keys]
        command = Command(describe_producers=DescribeProducers(partitions=asked))
        reply = (await self._control.call(command)).producers_described
        found: dict[_GapKey, int] = {}
        for key, partition in zip(keys, reply.partitions, strict=True):
            if partition.error_code == ErrorCode.NONE:
                for each in partition.producers:
                    found[each.producer_id, each.producer_epoch, key] = each.last_sequence
        return found


def _key_of(batch: PendingBatch) -> _GapKey:
    return (batch.producer_id, batch.producer_epoch, batch.key)


def _last_sequence(batch: PendingBatch) -> int:
    return (batch.base_sequence + batch.record_count - 1) % _SEQUENCES


def _is_behind(sequence: int, other: int) -> bool:
    """Whether `sequence` comes before `other`, where they wrap from 2^31-1 to 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2
