"""The report of a compaction."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.objects.prices import GET, PUT, Prices
from lacuna.pipeline.extents import PartitionLog


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a set of partitions: bytes, objects, extents and dead ranges.

    `metadata_bytes` is the size of the extents and dead ranges in messages from the control plane.
    """

    bytes: int = 0
    objects: int = 0
    extents: int = 0
    dead_ranges: int = 0
    metadata_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic's size before and after the compaction. The name "" stands for all topics combined."""

    topic: str
    before: Size
    after: Size


@dataclass(frozen=True, slots=True)
class Trouble:
    """A partition that was left unchanged, at least in part, and the reason."""

    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work done by the tasks, in store requests and stored bytes.

    `bytes_between` counts the bytes between live extents: mostly aborted records, which are read along with the live
    ones if that costs less than a separate request. `aborted_bytes_not_read` is a lower bound for the other aborted
    bytes.
    """

    partitions: int = 0
    tasks: int = 0
    puts: int = 0
    gets: int = 0
    bytes_read: int = 0
    bytes_between: int = 0
    bytes_written: int = 0
    aborted_bytes_not_read: int = 0
    expired_bytes_not_read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The changes that a run made, and the work that it did.

    `refused` lists the partitions that changed or were deleted in the meantime; those in `failed` need an operator's
    attention.
    """

    topics: Sequence[TopicChange]
    total: TopicChange
    work: Work
    refused: Sequence[Trouble]
    failed: Sequence[Trouble]
    seconds: float

    def request_dollars(self, prices: Prices) -> float:
        return prices.of({PUT: self.work.puts, GET: self.work.gets})

    def as_json(self, prices: Prices | None) -> dict[str, Any]:
        """Returns the complete report as a JSON value, including prices and costs if `prices` is given."""
        if prices is None:
            return asdict(self)
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
    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}
        self._objects: dict[str, set[tuple[int, int]]] = {}
        self._partitions: dict[PartitionKey, tuple[int, int]] = {}

    def add(self, logs: Iterable[PartitionLog]) -> None:
        """Adds partitions from any topics. A partition must not be added more than once."""
        for log in logs:
            self._partitions[log.key] = sum(log.extents.sizes), len(log.extents)
            for name in (log.topic, ""):
                sizes = self._sizes.setdefault(name, [0, 0, 0, 0])
                added = (sum(log.extents.sizes), len(log.extents), len(log.dead), metadata_of(log))
                sizes[:] = [old + new for old, new in zip(sizes, added, strict=True)]
                objects = zip(log.extents.lease_ids, log.extents.sequences, strict=True)
                self._objects.setdefault(name, set()).update(objects)

    def of_partition(self, key: PartitionKey) -> tuple[int, int]:
        """Returns the size in bytes and the number of extents of a partition that was added."""
        return self._partitions[key]

    def of(self, topic: str) -> Size:
        """Returns the total size of a topic's partitions, or of all partitions for ""."""
        size, extents, dead_ranges, metadata = self._sizes.get(topic, (0, 0, 0, 0))
        return Size(size, len(self._objects.get(topic, ())), extents, dead_ranges, metadata)


def metadata_of(log: PartitionLog) -> int:
    """Returns the size in bytes of a partition's extents and dead ranges in a message."""
    return log.extents.columns().ByteSize() + len(log.dead.pairs())


def changes(
    topics: Iterable[str], before: Sizes, after: Sizes
) -> tuple[list[TopicChange], TopicChange]:
    by_topic = [TopicChange(name, before.of(name), after.of(name)) for name in sorted(topics)]
    return by_topic, TopicChange("", before.of(""), after.of(""))


def sum_work(works: Iterable[Work]) -> Work:
    totals = Counter[str]()
    for work in works:
        totals.update(asdict(work))
    return Work(**totals)
