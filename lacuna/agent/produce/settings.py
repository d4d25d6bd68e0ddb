"""Settings of producing; sizes in bytes."""

from dataclasses import dataclass

from lacuna.base.setting import MEBIBYTE, check_settings, setting
from lacuna.controlplane.shared.hot import MOST_HOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """Settings of one worker's producing; sizes in bytes. Raises SettingsError."""

    flush_interval_ms: int = setting(
        "produce.flush.interval.ms",
        0,
        "How long the first batch of a flush waits for others. 0: until the flush in flight ends, which suits a "
        "local store. On S3, where every PUT costs money, the default is 250.",
        most=60_000,
        option="--flush-ms",
        panel="Speed",
    )
    flush_bytes: int = setting(
        "produce.flush.bytes", 8 * MEBIBYTE, "A flush with this many bytes does not wait.", least=1
    )
    hot_bytes: int = setting(
        "produce.hot.bytes",
        0,
        "A flush of at most this many bytes becomes a hot segment: the journal keeps its bytes, with its commit, until "
        "merging moves them to the bucket. 0: none does.",
        most=MOST_HOT_BYTES // 2,
    )
    max_flushes: int = setting(
        "produce.max.flushes",
        4,
        "How many segments each worker may write at once.",
        least=1,
        most=1024,
    )
    max_queued_bytes: int = setting(
        "produce.queue.bytes",
        512 * MEBIBYTE,
        "The agent rejects batches beyond this bound until there is room; clients retry them.",
        least=1,
    )

    commit_timeout_ms: int = 20_000
    """How long a commit whose reply was lost is repeated before its batches fail."""

    def __post_init__(self) -> None:
        check_settings(self)
