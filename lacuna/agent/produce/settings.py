"""Settings for producing; sizes in bytes."""

from dataclasses import dataclass

from lacuna.base.setting import MEBIBYTE, check_settings, setting
from lacuna.logstore.segments.hot import MOST_HOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """Settings for producing in one worker; sizes in bytes. Raises SettingsError."""

    flush_interval_ms: int = setting(
        "produce.flush.interval.ms",
        -1,
        "How long the first batch of a flush waits for others, whatever the PUTs cost. 0: until the current flush "
        "ends. -1: as long as requests.budget requires.",
        least=-1,
        most=60_000,
        option="--flush-ms",
        panel="Speed",
    )
    requests_budget: int = setting(
        "requests.budget",
        105,
        "The amount, in dollars a month, that the PUTs of flushes may cost in the whole cluster. If the store charges "
        "for requests, flushes wait as long as this budget requires. The default pays for a flush every 250 ms in "
        "each of two agent processes. Full flushes do not wait.",
        least=1,
        option="--requests-budget",
        panel="Speed",
    )
    flush_bytes: int = setting(
        "produce.flush.bytes",
        8 * MEBIBYTE,
        "A flush that has reached this many bytes does not wait.",
        least=1,
    )
    hot_bytes: int = setting(
        "produce.hot.bytes",
        -1,
        "A flush of at most this many bytes becomes a hot segment, which the journal keeps until merging moves it to "
        "the bucket. 0: no hot segments. -1: 131072 if the store is a folder; 524288 if it is a bucket and the "
        "journal is in PostgreSQL or in the bucket; otherwise 0, since the newest records would be only as durable as "
        "the journal's disk.",
        least=-1,
        most=MOST_HOT_BYTES // 2,
    )
    max_flushes: int = setting(
        "produce.max.flushes",
        4,
        "How many segments each worker may write concurrently.",
        least=1,
        most=1024,
    )
    max_queued_bytes: int = setting(
        "produce.queue.bytes",
        512 * MEBIBYTE,
        "The maximum number of bytes in queued batches. Beyond this bound, the agent rejects batches, and "
        "clients retry them.",
        least=1,
    )

    flush_burst: int = 8
    """How many flushes may begin one after another without a wait, after the agent has been idle."""
    longest_flush_wait_ms: int = 5_000
    """The longest time that a flush waits for the request budget, however small the budget is. Clients wait for 30
    s."""
    hot_copy_interval_ms: int = 10_000
    """How often the cluster copies a hot segment to the bucket, which shows how far the journal has advanced. Each
    process waits this long multiplied by the number of live processes, up to a minute."""
    commit_timeout_ms: int = 20_000
    """How long an agent repeats a commit whose reply was lost before the batches in it fail."""

    def __post_init__(self) -> None:
        check_settings(self)
