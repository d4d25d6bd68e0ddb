"""Settings of fetching; sizes in bytes."""

from dataclasses import dataclass

from lacuna.setting import LARGEST_INT, MEBIBYTE, check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Settings of one worker's fetching; sizes in bytes. Raises SettingsError."""

    cache_bytes: int = setting(
        "fetch.cache.bytes",
        128 * MEBIBYTE,
        "Cached records and the columns that describe them, per worker.",
        least=4096,
        option="--cache-mib",
    )
    answer_bytes: int = setting(
        "fetch.answer.bytes",
        96 * MEBIBYTE,
        "Records outside the cache that answers hold until clients have read them, per worker. The closer the "
        "total comes to this, the smaller answers become.",
        least=4096,
    )
    max_response_bytes: int = setting(
        "fetch.max.bytes",
        16 * MEBIBYTE,
        "The most that one answer holds, whatever the client asks for, unless a single batch is larger.",
        least=4096,
        most=LARGEST_INT,
    )
    max_reads: int = setting(
        "fetch.max.reads",
        16,
        "How many reads of the store run at once, per worker; fewer if the store prefers fewer.",
        least=1,
        most=1024,
    )
    read_ahead_bytes: int = setting(
        "fetch.read.ahead.bytes",
        16 * MEBIBYTE,
        "Bytes after those fetched that are read before they are asked for, for all partitions of a fetch "
        "together; 0 to read nothing ahead.",
    )
    zone_reads: str = setting(
        "fetch.zone.reads",
        "auto",
        "Whether the agents of a zone share what they read, so that they read the bucket once (adr/0039). `auto`: yes "
        "for agents that name their zone, if the store is one whose requests cost. `on`: also agents without a zone, "
        "which count as one zone, and with any store.",
        choices=("auto", "on", "off"),
    )
    max_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Incremental fetch sessions per worker. Beyond it a consumer fetches without one, unless its session may take "
        "the place of one that has not been used for two minutes, or of one as old that has fewer partitions.",
        least=1,
        most=LARGEST_INT,
    )

    max_read_bytes: int = 8 * MEBIBYTE
    """The most that one read of the store brings, unless a single piece is larger."""
    chunk_bytes: int = 8 * MEBIBYTE
    """The agents of a zone divide an object among themselves in chunks of this size."""
    zone_patience_ms: int = 1_000
    """How long a read waits for another agent of its zone, before it reads the bucket itself."""
    max_session_partitions: int = 500_000
    """Partitions in all sessions together; beyond it consumers fetch without one."""

    def __post_init__(self) -> None:
        check_settings(self)
