"""The sizes of all topics, and their growth."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lacuna.console.limits import SAMPLED_PARTITIONS
from lacuna.console.sources import Sources
from lacuna.controlplane.client import ControlClient, confirm
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PartitionState, ReadPartitions

#: A sample of up to this age is used again.
_FRESH_SECONDS: Final = 1.0
#: Rates cover the last minute. There is a sample about every ten seconds while the console is in use.
_PAUSE_SECONDS: Final = 10.0
_MINUTE: Final = 65.0
#: Partitions in one command to the control plane.
_AT_ONCE: Final = 1000


class TopicSize(NamedTuple):
    """The sums over a topic's partitions: retained offsets, all offsets, bytes, and offsets that wait."""

    retained: int = 0
    offsets: int = 0
    size: int = 0
    waiting: int = 0


class Sample(NamedTuple):
    """The sizes of all topics at one time. `left_out` counts the partitions beyond the bound of a request."""

    seconds: float
    topics: Mapping[bytes, TopicSize]
    left_out: int


class Sampler:
    """Keeps samples of the last minute. It takes them only when a page asks for one."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._samples: deque[Sample] = deque()
        self._newest: Sample | None = None
        self._lock = asyncio.Lock()

    async def newest(self) -> Sample:
        """Return a sample that is at most a second old. Raises ControlPlaneUnavailable."""
        async with self._lock:
            now = self._sources.seconds()
            if self._newest is None or now - self._newest.seconds > _FRESH_SECONDS:
                self._newest = await self._take()
                self._keep(self._newest)
            return self._newest

    def _keep(self, sample: Sample) -> None:
        while self._samples and sample.seconds - self._samples[0].seconds > _MINUTE:
            self._samples.popleft()
        if not self._samples or sample.seconds - self._samples[-1].seconds > _PAUSE_SECONDS:
            self._samples.append(sample)

    def rates(self, sample: Sample) -> Mapping[bytes, float]:
        """Return the offsets per second that topics received in the last minute; empty if they are not known."""
        before = self._samples[0] if self._samples else sample
        passed = sample.seconds - before.seconds
        if passed < _FRESH_SECONDS:
            return {}
        return {
            topic_id: (size.offsets - before.topics[topic_id].offsets) / passed
            for topic_id, size in sample.topics.items()
            if topic_id in before.topics
        }

    async def _take(self) -> Sample:
        control = self._sources.control
        await confirm(control)
        await control.cluster.ready()
        keys: list[TopicPartition] = []
        left_out = 0
        for topic in control.cluster.topics_by_id.values():
            if len(keys) + topic.partition_count > SAMPLED_PARTITIONS:
                left_out += topic.partition_count
                continue
            keys += [
                TopicPartition(topic_id=topic.topic_id, partition=index)
                for index in range(topic.partition_count)
            ]
        states = await read_partitions(control, keys)
        topics: dict[bytes, TopicSize] = {}
        for key, state in zip(keys, states, strict=True):
            if state.error_code:
                continue  # the topic was deleted in the meantime
            size = topics.get(key.topic_id, TopicSize())
            topics[key.topic_id] = TopicSize(
                size.retained + state.high_watermark - state.log_start_offset,
                size.offsets + state.high_watermark,
                size.size + state.size,
                size.waiting + state.high_watermark - state.last_stable_offset,
            )
        return Sample(self._sources.seconds(), topics, left_out)


async def read_partitions(
    control: ControlClient, keys: Sequence[TopicPartition]
) -> Sequence[PartitionState]:
    """Return the bounds and sizes of partitions. Raises ControlPlaneUnavailable."""
    states: list[PartitionState] = []
    for first in range(0, len(keys), _AT_ONCE):
        query = ReadPartitions(partitions=keys[first : first + _AT_ONCE])
        reply = await control.call(Command(read_partitions=query))
        states += reply.partitions_read.partitions
    return states
