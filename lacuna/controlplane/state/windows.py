"""All idempotence windows by the minute of their last use, and the bounds on them (S8, S10)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lacuna.base.setting import check_settings, setting
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import Partition, ProducerWindow

#: The precision of the order in which windows are dropped. A window is refiled at most once in this time.
MINUTE_MS: Final = 60_000

_RELEASED_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The bounds on how many producers' last batches the control plane remembers. Raises SettingsError."""

    producer_windows_max: int = setting(
        "producer.windows.max",
        1_000_000,
        "The maximum number of idempotence windows across all partitions. Each producer has one in each partition "
        "that it writes to. Beyond this bound, the least recently used windows are dropped.",
        least=1,
    )
    partition_producer_windows_max: int = setting(
        "partition.producer.windows.max",
        100_000,
        "The maximum number of idempotence windows in one partition. Beyond this bound, the least recently used "
        "windows are dropped.",
        least=1,
    )

    def __post_init__(self) -> None:
        check_settings(self)


class Windows:
    """All idempotence windows of existing partitions. They are derived from the partitions, and only replay changes
    them.

    Windows of deleted partitions are released a few at a time; until then, `oldest` still yields them.
    """

    __slots__ = ("_by_minute", "_gone", "count", "grown", "settings")

    def __init__(self) -> None:
        self.settings = ProducerSettings()
        self.count = 0
        #: Volatile: partitions that have received a new window since their windows were last counted.
        self.grown: dict[PartitionKey, None] = {}
        self._by_minute: dict[int, dict[ProducerWindow, None]] = {}
        self._gone: list[dict[int, ProducerWindow]] = []

    def open(self, partition: Partition, producer_id: int, producer_epoch: int) -> ProducerWindow:
        """Create a window in a partition. Call `use` next, to file it."""
        window = ProducerWindow(partition.key, producer_id, producer_epoch)
        partition.producers[producer_id] = window
        self.count += 1
        self.grown[partition.key] = None
        self.release(_RELEASED_AT_ONCE)
        return window

    def add(self, window: ProducerWindow) -> None:
        """Add an existing window, filed under the minute of its last use."""
        self.count += 1
        self.grown[window.key] = None
        self._file(window)

    def use(self, window: ProducerWindow, now_ms: int) -> None:
        """Refile a window on its first use in a minute."""
        if window.last_used_ms >= 0:
            self._unfile(window)
        window.last_used_ms = now_ms
        self._file(window)

    def drop(self, partition: Partition, producer_id: int) -> None:
        self._unfile(partition.producers.pop(producer_id))
        self.count -= 1

    def forget(self, partition: Partition) -> None:
        """Remove all windows of a deleted partition."""
        self.count -= len(partition.producers)
        self.grown.pop(partition.key, None)
        if partition.producers:
            self._gone.append(partition.producers)
            partition.producers = {}

    def release(self, most: int) -> None:
        """Release up to `most` windows of deleted partitions."""
        while self._gone and most:
            _, window = self._gone[-1].popitem()
            self._unfile(window)
            if not self._gone[-1]:
                self._gone.pop()
            most -= 1

    def clear(self) -> None:
        """Drop all windows, so that they can be added again."""
        self.count = 0
        self._by_minute.clear()
        self._gone.clear()

    def take_grown(self) -> dict[PartitionKey, None]:
        """Return the partitions that have received a new window since the last call."""
        grown, self.grown = self.grown, {}
        return grown

    def oldest(self) -> Iterator[ProducerWindow]:
        """Yield all windows, ordered by the minute of their last use."""
        for minute in sorted(self._by_minute):
            yield from self._by_minute[minute]

    def _file(self, window: ProducerWindow) -> None:
        self._by_minute.setdefault(window.last_used_ms // MINUTE_MS, {})[window] = None

    def _unfile(self, window: ProducerWindow) -> None:
        minute = window.last_used_ms // MINUTE_MS
        filed = self._by_minute[minute]
        del filed[window]
        if not filed:
            del self._by_minute[minute]
