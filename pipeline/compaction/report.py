"""What a compaction did, as values; see `as_json` for machines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.extents import PartitionKey, PartitionLog
from pipeline.prices import GET, PUT, Prices


@dataclass(frozen=True, slots=True)
class Size:
    """What metadata speaks of; bytes, objects, extents and ranges of aborted records.

    `metadata_bytes` is the size of a partition's extents and dead ranges as the control plane sends
    them to whoever reads.
    """

    bytes: int = 0
    objects: int = 0
    extents: int = 0
    dead_ranges: int = 0
    metadata_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic before and after; all topics together are named ""."""

    topic: str
    before: Size
    after: Size


@dataclass(frozen=True, slots=True)
class Trouble:
    """A partition of which a part, or all, stays as it was, and why."""

    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the tasks did; bytes are those of the store."""

    partitions: int = 0
    tasks: int = 0
    puts: int = 0
    gets: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    aborted_bytes_not_read: int = 0
    expired_bytes_not_read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """`refused` changed meanwhile, and are for the next run; `failed` need somebody's care."""

    topics: Sequence[TopicChange]
    total: TopicChange
    work: Work
    refused: Sequence[Trouble]
    failed: Sequence[Trouble]
    seconds: float

    def request_dollars(self, prices: Prices) -> float:
        """What the requests cost."""
        return prices.of({PUT: self.work.puts, GET: self.work.gets})

    def as_json(self, prices: Prices) -> dict[str, Any]:
        """All of it."""
        return {
            **asdict(self),
            "prices": asdict(prices),
            "dollars": {
                "requests": self.request_dollars(prices),
                "month_before": prices.of_a_month(self.total.before.bytes),
                "month_after": prices.of_a_month(self.total.after.bytes),
            },
        }


class Sizes:
    """Adds up partitions, by topic."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}
        self._objects: dict[str, set[tuple[int, int]]] = {}
        self._partitions: dict[PartitionKey, tuple[int, int]] = {}

    def add(self, logs: Iterable[PartitionLog]) -> None:
        """Partitions of any topics, each once."""
        for log in logs:
            self._partitions[log.key] = sum(log.extents.sizes), len(log.extents)
            for name in (log.topic, ""):
                sizes = self._sizes.setdefault(name, [0, 0, 0, 0])
                added = (sum(log.extents.sizes), len(log.extents), len(log.dead), metadata_of(log))
                sizes[:] = [old + new for old, new in zip(sizes, added, strict=True)]
                objects = zip(log.extents.lease_ids, log.extents.sequences, strict=True)
                self._objects.setdefault(name, set()).update(objects)

    def of_partition(self, key: PartitionKey) -> tuple[int, int]:
        """Bytes and extents of one that was added."""
        return self._partitions[key]

    def of(self, topic: str) -> Size:
        """The sum of a topic's partitions; of all with ""."""
        size, extents, dead_ranges, metadata = self._sizes.get(topic, (0, 0, 0, 0))
        return Size(size, len(self._objects.get(topic, ())), extents, dead_ranges, metadata)


def metadata_of(log: PartitionLog) -> int:
    """Bytes of a partition's extents and dead ranges in a message."""
    return log.extents.columns().ByteSize() + len(log.dead.pairs())


def changes(
    topics: Iterable[str], before: Sizes, after: Sizes
) -> tuple[list[TopicChange], TopicChange]:
    """Each topic, and all."""
    by_topic = [TopicChange(name, before.of(name), after.of(name)) for name in sorted(topics)]
    return by_topic, TopicChange("", before.of(""), after.of(""))


def sum_work(works: Iterable[Work]) -> Work:
    """All together."""
    totals: Mapping[str, int] = asdict(Work())
    for work in works:
        totals = {name: value + totals[name] for name, value in asdict(work).items()}
    return Work(**totals)
