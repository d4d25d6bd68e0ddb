"""Requests the offsets at which partitions ended for read_committed consumers at a past time, or at which they can be
cut now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lacuna.controlplane.client.protocol import ControlClient
from lacuna.controlplane.client.times import show_time
from lacuna.controlplane.shared.partitions import PartitionKey, named
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    CutHolder,
    PartitionAsOf,
    PartitionCut,
    ReadAsOf,
    ReadPartitions,
)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Partitions as they were at `as_of_ms`. If the requested time is before `known_from_ms`, `as_of_ms` is 0 and there
    are no partitions.
    """

    as_of_ms: int
    known_from_ms: int
    partitions: Mapping[PartitionKey, PartitionAsOf]

    @property
    def is_known(self) -> bool:
        """Whether the partitions are known as of the requested time."""
        return self.as_of_ms > 0


@dataclass(frozen=True, slots=True)
class Cut:
    """The largest end offsets, as of `at_ms`, that split no transaction.

    `holders` are the open transactions that prevent larger offsets. A partition refers to its holder by number, counted
    from 1.
    """

    at_ms: int
    partitions: Mapping[PartitionKey, PartitionCut]
    holders: Sequence[CutHolder]

    def holder_of(self, key: PartitionKey) -> CutHolder | None:
        """Return the open transaction that limits a partition's end, or None if there is none or it is not listed."""
        number = self.partitions[key].holder
        return self.holders[number - 1] if number else None


async def read_cut(control: ControlClient, keys: Sequence[PartitionKey]) -> Cut:
    """Return the cut of these partitions. Raises the same errors as `control.call`."""
    command = Command(read_cut=ReadPartitions(partitions=map(named, keys)))
    read = (await control.call(command)).cut_read
    return Cut(read.at_ms, dict(zip(keys, read.partitions, strict=True)), read.holders)


async def read_as_of(
    control: ControlClient, keys: Sequence[PartitionKey], at_ms: int, *, is_cut: bool = False
) -> AsOf:
    """Return the partitions at the latest time up to `at_ms` that is known for all of them or, with `is_cut`, a cut as
    of that time. Raises the same errors as `control.call`.
    """
    wanted = ReadAsOf(partitions=map(named, keys), at_ms=at_ms, is_cut=is_cut)
    command = Command(read_as_of=wanted)
    read = (await control.call(command)).as_of_read
    found = dict(zip(keys, read.partitions, strict=bool(read.as_of_ms)))
    return AsOf(read.as_of_ms, read.known_from_ms, found)


def not_known(what: str, known_from_ms: int) -> str:
    """Return the error message for a time before `known_from_ms`, the earliest time that is known for one or more
    topics.
    """
    since = show_time(known_from_ms)
    return f"the visible part of {what} is known only from {since} on: specify a later time"
