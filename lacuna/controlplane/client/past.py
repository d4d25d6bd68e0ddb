"""Asks where partitions ended for read_committed consumers at a past time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lacuna.controlplane.client.protocol import ControlClient
from lacuna.controlplane.client.times import show_time
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PartitionAsOf, ReadAsOf


@dataclass(frozen=True, slots=True)
class AsOf:
    """Partitions as they were at `as_of_ms`. If it precedes `known_from_ms`, it is 0 and there are no partitions."""

    as_of_ms: int
    known_from_ms: int
    partitions: Mapping[PartitionKey, PartitionAsOf]

    @property
    def is_known(self) -> bool:
        """Whether there is an answer."""
        return self.as_of_ms > 0


async def read_as_of(control: ControlClient, keys: Sequence[PartitionKey], at_ms: int) -> AsOf:
    """Return the partitions at the last time up to `at_ms` that is known for all of them. Raises the errors of
    `control.call`.
    """
    wanted = [TopicPartition(topic_id=topic_id, partition=index) for topic_id, index in keys]
    command = Command(read_as_of=ReadAsOf(partitions=wanted, at_ms=at_ms))
    read = (await control.call(command)).as_of_read
    found = dict(zip(keys, read.partitions, strict=bool(read.as_of_ms)))
    return AsOf(read.as_of_ms, read.known_from_ms, found)


def not_known(what: str, known_from_ms: int) -> str:
    """Return the error for a time before the first known time of one or several topics."""
    since = show_time(known_from_ms)
    return (
        f"the visible part of {what} at that time is not known, only from {since} on: give a "
        "later time"
    )
