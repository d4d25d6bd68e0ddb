"""Joins: adds the partition of a rejected batch to the transaction, as Kafka does (S9, KIP-890).

Kafka's Produce v12 adds partitions to the transaction before it checks their batches. As a result, a producer can
commit a transaction whose batches were all rejected, and a fenced producer gets the fencing error rather than an error
for its batch. Partitions of accepted batches join when the batches are committed (controlplane/verbs/slices.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.agent.fencing import fenced
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.produce.buffer import NO_PRODUCER_ID, NOT_PERSISTED
from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.errors import RecordsError

#: From this version on, Produce adds its partitions to the transaction itself (KIP-890).
FIRST_IMPLICIT_ADD: Final = 12


@dataclass(frozen=True, slots=True)
class Join:
    """A partition that joins a producer's transaction."""

    key: PartitionKey
    producer_id: int
    producer_epoch: int


def join_of(key: PartitionKey, records: memoryview) -> Join | None:
    """Return the join for a rejected batch, or None if it is not one complete batch from a transactional producer."""
    try:
        header = BatchHeader.parse(records)
    except RecordsError:
        return None
    is_whole = header.size == len(records)
    if not is_whole or not header.is_transactional or header.producer_id == NO_PRODUCER_ID:
        return None
    return Join(key, header.producer_id, header.producer_epoch)


async def join_all(control: ControlClient, transactional_id: str, joins: Sequence[Join]) -> int:
    """Add partitions to a transaction. Return the error that takes precedence in the answer to the producer, or 0."""
    first = joins[0]
    if any(
        (each.producer_id, each.producer_epoch) != (first.producer_id, first.producer_epoch)
        for each in joins
    ):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for index in range(0, len(joins), MOST_OF_PIECE):
        keys = [each.key for each in joins[index : index + MOST_OF_PIECE]]
        command = AddPartitionsToTxn(
            transactional_id=transactional_id,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            partitions=[TopicPartition(topic_id=key[0], partition=key[1]) for key in keys],
        )
        try:
            reply = await control.call(Command(add_partitions_to_txn=command))
        except ControlPlaneUnavailable:
            return NOT_PERSISTED.error_code
        if reply.partitions_added_to_txn.error_code:
            return fenced(reply.partitions_added_to_txn.error_code, knows_producer_fenced=False)
    return 0
