"""The limits and intervals of a runtime, and the fill levels that it reports."""

from dataclasses import dataclass

from lacuna.base.setting import MEBIBYTE, check_settings, setting
from lacuna.controlplane.state.hot import HOT_BYTES_PER_SECOND, MAX_HOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """Limits and intervals of a runtime. Raises SettingsError.

    While `max_held` deliveries are held, or `max_held_bytes` of records are waiting for an append, up to `max_backlog`
    commands wait in the backlog. One session may watch `max_subscriptions` partitions.
    """

    snapshot_records: int = setting(
        "metadata.log.max.records.between.snapshots",
        50_000,
        "The number of journal records after which the next metadata snapshot is taken.",
        least=1,
    )
    snapshot_bytes: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        64 * MEBIBYTE,
        "The number of journal bytes after which the next metadata snapshot is taken.",
        least=1,
    )
    hot_bytes_per_second: int = setting(
        "hot.bytes.per.second",
        HOT_BYTES_PER_SECOND,
        "How many bytes of hot segments the journal accepts per second. A burst may use four seconds' allowance at "
        "once. Agents write any further segments to the bucket.",
        least=1,
    )
    max_hot_bytes: int = setting(
        "hot.max.bytes",
        MAX_HOT_BYTES,
        "The maximum number of bytes of hot segments that the journal keeps until merging has moved them to the "
        "bucket. Agents write any further segments to the bucket.",
    )
    tick_interval_ms: int = 250
    max_held: int = 50_000
    max_held_bytes: int = 64 << 20
    max_backlog: int = 100_000
    max_subscriptions: int = 200_000

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLoad:
    """The fill levels of a runtime's queues, and the journal's position. `pending_*` refer to records whose append has
    not begun. `longest_step_ms` is the duration of the longest decision so far, for a command or a tick.
    """

    sessions: int
    subscriptions: int
    held: int
    backlog: int
    pending_records: int
    pending_bytes: int
    decided_position: int
    durable_position: int
    records_since_snapshot: int
    longest_step_ms: float
