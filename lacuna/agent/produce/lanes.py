"""Lanes: hold batches that must wait before they are queued, and the batches that must stay behind them (S12).

A batch waits while it is being recompressed, or if an earlier batch from its producer has failed. Until it is queued,
only later batches from the same producer for the same partition wait behind it. In a topic with LogAppendTime, all
later batches for the partition wait, since their times are already set and must ascend.
"""

import asyncio
from collections import OrderedDict
from typing import TypeAlias

from lacuna.agent.produce.buffer import PendingBatch, ProducerKey
from lacuna.controlplane.shared.batches import FLAG_LOG_APPEND_TIME
from lacuna.controlplane.shared.partitions import PartitionKey

_Lane: TypeAlias = ProducerKey | PartitionKey


class Lanes:
    """The lanes in use. Batches waiting in them belong to unanswered requests, whose memory the server bounds."""

    def __init__(self) -> None:
        self._places: dict[_Lane, OrderedDict[Place, None]] = {}
        self.waiting = 0  # batches

    def hold(self, batch: PendingBatch) -> bool:
        """Whether an earlier batch must be queued before this one."""
        return bool(self._places) and any(lane in self._places for lane in _lanes_of(batch))

    def enter(self, place: "Place", batch: PendingBatch) -> None:
        """Put a batch behind those waiting in its lanes. `place` stands for all waiting batches of its request."""
        place.batches.append(batch)
        self.waiting += 1
        for lane in _lanes_of(batch):
            places = self._places.setdefault(lane, OrderedDict())
            if place not in places:
                place.is_behind += bool(places)
                places[place] = None
                place.lanes.append(lane)

    def leave(self, place: "Place") -> None:
        """Remove a request's batches from their lanes, and let the next in each lane move up."""
        self.waiting -= len(place.batches)
        for lane in place.lanes:
            places = self._places[lane]
            was_first = next(iter(places)) is place
            del places[place]
            if not places:
                del self._places[lane]
            elif was_first:
                next(iter(places)).move_up()


class Place:
    """Stands for the waiting batches of one request. `is_behind` counts the lanes in which they are not first."""

    __slots__ = ("_is_first", "batches", "is_behind", "lanes")

    def __init__(self) -> None:
        self.batches: list[PendingBatch] = []
        self.lanes: list[_Lane] = []
        self.is_behind = 0
        self._is_first: asyncio.Future[None] | None = None

    def move_up(self) -> None:
        self.is_behind -= 1
        if not self.is_behind and self._is_first is not None and not self._is_first.done():
            self._is_first.set_result(None)

    async def is_first(self) -> None:
        if self.is_behind:
            self._is_first = asyncio.get_running_loop().create_future()
            await self._is_first


def _lanes_of(batch: PendingBatch) -> tuple[_Lane, ...]:
    if batch.flags & FLAG_LOG_APPEND_TIME:
        return batch.producer_key, batch.key
    return (batch.producer_key,)
