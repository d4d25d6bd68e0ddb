"""Samples of all topics' sizes, for their growth and for the charts of the last hour."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple

from lacuna.console import formats, limits
from lacuna.console.limits import SAMPLED_PARTITIONS
from lacuna.console.sources import Sources
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import AgentReport, TopicPartition
from lacuna.operating import questions

#: A sample up to this age is reused.
_FRESH_SECONDS: Final = 1.0
#: Rates cover the last minute. There is a sample about every ten seconds while the console is in use.
_PAUSE_SECONDS: Final = 10.0
_MINUTE: Final = 65.0


class TopicSize(NamedTuple):
    """A topic's retained offsets, total offsets, bytes, and waiting offsets, summed over its partitions."""

    retained: int = 0
    offsets: int = 0
    size: int = 0
    waiting: int = 0


class Sample(NamedTuple):
    """The sizes of all topics at one time. `left_out` is the number of partitions beyond the limit for a request."""

    seconds: float
    topics: Mapping[bytes, TopicSize]
    left_out: int


class Sampler:
    """Keeps the samples of the last minute, taken only when a page needs one."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._samples: deque[Sample] = deque()
        self._newest: Sample | None = None
        self._lock = asyncio.Lock()
        #: The last stable offsets in the newest sample, by topic id and partition.
        self.stable: Mapping[tuple[bytes, int], int] = {}

    async def newest(self) -> Sample:
        """Return a sample at most one second old. Raises ControlPlaneUnavailable."""
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
        """Return each topic's growth in offsets per second over the last minute; empty if unknown."""
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
        keys: list[TopicPartition] = []
        left_out = 0
        for topic in (await questions.current(control)).topics_by_id.values():
            if len(keys) + topic.partition_count > SAMPLED_PARTITIONS:
                left_out += topic.partition_count
            else:
                keys += questions.partitions_of([topic])
        states = await questions.read_partitions(control, keys)
        topics: dict[bytes, TopicSize] = {}
        stable: dict[tuple[bytes, int], int] = {}
        for key, state in zip(keys, states, strict=True):
            if state.error_code:
                continue  # the topic was deleted in the meantime
            stable[key.topic_id, key.partition] = state.last_stable_offset
            size = topics.get(key.topic_id, TopicSize())
            topics[key.topic_id] = TopicSize(
                size.retained + state.high_watermark - state.log_start_offset,
                size.offsets + state.high_watermark,
                size.size + state.size,
                size.waiting + state.high_watermark - state.last_stable_offset,
            )
        self.stable = stable
        return Sample(self._sources.seconds(), topics, left_out)


class Counts(NamedTuple):
    """An agent's counters since it started."""

    requests: int
    store_requests: int
    dollars: float


class Moment(NamedTuple):
    """One point in time on the charts of the last hour. `agents` contains the counters by lease id."""

    seconds: float
    offsets: int
    lag: int
    transactions: int
    waiting: int
    agents: Mapping[int, Counts]


@dataclass(frozen=True, slots=True)
class Line:
    """A chart of the last hour: its name, its newest and largest values as text, and its SVG path."""

    name: str
    newest: str
    largest: str
    path: str


#: In a line's coordinates, the width of the whole period, and the height of the largest value.
_WIDE: Final = 1000
_HIGH: Final = 100
_HOUR: Final = 3600.0


class History:
    """Records a moment every half minute and keeps it for an hour. Its memory does not grow with the cluster."""

    def __init__(self, sources: Sources, sampler: Sampler) -> None:
        self._sources = sources
        self._sampler = sampler
        self._moments: deque[Moment] = deque(maxlen=limits.MOMENTS)

    async def run(self) -> None:
        """Record moments until cancelled. The charts have a gap where no control plane answered."""
        while True:
            with suppress(ControlPlaneUnavailable, CommandRefused, TimeoutError):
                async with asyncio.timeout(limits.ANSWER_SECONDS):
                    await self.take()
            await asyncio.sleep(limits.MOMENT_SECONDS)

    async def take(self) -> None:
        """Record a moment. Raises ControlPlaneUnavailable."""
        control = self._sources.control
        sample = await self._sampler.newest()
        listed = await questions.transactions(control, states=["Ongoing"])
        agents = (await self._sources.describe_cluster()).agents
        moment = Moment(
            sample.seconds,
            sum(topic.offsets for topic in sample.topics.values()),
            await self._lag(),
            len(listed),
            sum(topic.waiting for topic in sample.topics.values()),
            {
                each.lease_id: _counts(each.report)
                for each in islice(agents, limits.AGENTS)
                if each.HasField("report")
            },
        )
        self._moments.append(moment)

    async def _lag(self) -> int:
        """Return how many stable offsets groups have yet to read, counted up to a limit."""
        control = self._sources.control
        ids = [each.group_id for each in (await questions.groups(control))[: limits.GROUPS]]
        lag, left = 0, limits.OFFSETS
        for first in range(0, len(ids), limits.GROUPS_AT_ONCE):
            some = ids[first : first + limits.GROUPS_AT_ONCE]
            fetched = await questions.offsets_of(control, some)
            for each in (each for group in fetched for each in group.offsets):
                key = (each.partition.topic_id, each.partition.partition)
                lag += max(self._sampler.stable.get(key, 0) - each.offset, 0)
                left -= 1
            if left <= 0:
                break
        return lag

    def lines(self) -> list[Line]:
        """Return the charts of the last hour, or none until there are two moments."""
        moments = list(self._moments)
        if len(moments) < 2:
            return []
        return [
            _line("Offsets written per second", _rates(moments, _offsets), moments),
            _line("Client requests per second", _rates(moments, _of_agents("requests")), moments),
            _line("Offsets not yet read by groups", [each.lag for each in moments], moments),
            _line("Open transactions", [each.transactions for each in moments], moments),
            _line("Offsets held back", [each.waiting for each in moments], moments),
            _line(
                "Store requests per second",
                _rates(moments, _of_agents("store_requests")),
                moments,
            ),
            _line(
                "Store cost, dollars per hour",
                [
                    None if each is None else each * _HOUR
                    for each in _rates(moments, _of_agents("dollars"))
                ],
                moments,
            ),
        ]


def _counts(report: AgentReport) -> Counts:
    store = report.store
    requests = store.puts + store.gets + store.heads + store.lists + store.deletes
    return Counts(report.requests, requests, store.dollars)


_Growth = Callable[[Moment, Moment], float]


def _offsets(one: Moment, other: Moment) -> float:
    return max(other.offsets - one.offsets, 0)


def _of_agents(name: str) -> _Growth:
    """Return a function that computes a counter's growth over the agents that exist at both moments."""

    def growth(one: Moment, other: Moment) -> float:
        grown = (
            getattr(counts, name) - getattr(one.agents[lease_id], name)
            for lease_id, counts in other.agents.items()
            if lease_id in one.agents
        )
        return float(sum(max(each, 0) for each in grown))

    return growth


def _rates(moments: Sequence[Moment], growth: _Growth) -> list[float | None]:
    """Return the growth per second up to each moment, or None after a gap."""
    return [None, *(_rate(one, other, growth) for one, other in pairwise(moments))]


def _rate(one: Moment, other: Moment, growth: _Growth) -> float | None:
    passed = other.seconds - one.seconds
    return growth(one, other) / passed if 0 < passed < 3 * limits.MOMENT_SECONDS else None


def _line(name: str, values: Sequence[float | None], moments: Sequence[Moment]) -> Line:
    known = [each for each in values if each is not None]
    largest = max(known, default=0.0)
    newest = values[-1]
    return Line(
        name,
        "\N{EN DASH}" if newest is None else formats.short(newest),
        formats.short(largest),
        " ".join(_path(values, moments, largest or 1.0)),
    )


def _path(
    values: Sequence[float | None], moments: Sequence[Moment], largest: float
) -> Iterator[str]:
    """Yield SVG path commands, with a new subpath after each gap."""
    command, before, first = "M", moments[0].seconds, moments[0].seconds
    span = moments[-1].seconds - first or 1.0
    for value, moment in zip(values, moments, strict=True):
        if value is None or moment.seconds - before > 3 * limits.MOMENT_SECONDS:
            command = "M"
        before = moment.seconds
        if value is not None:
            x = _WIDE * (moment.seconds - first) / span
            yield f"{command}{x:.0f} {_HIGH * (1 - value / largest):.1f}"
            command = "L"
