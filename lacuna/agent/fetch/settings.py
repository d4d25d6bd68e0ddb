"""Settings for fetching; sizes in bytes."""

from dataclasses import dataclass

from lacuna.base.setting import LARGEST_INT, MEBIBYTE, check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Settings for fetching in one worker; sizes in bytes. Raises SettingsError."""

    cache_bytes: int = setting(
        "fetch.cache.bytes",
        128 * MEBIBYTE,
        "The size of each worker's cache of records, in bytes, including the columns that "
        "describe the records.",
        least=4096,
        option="--cache-bytes",
        panel="Speed",
    )
    answer_bytes: int = setting(
        "fetch.answer.bytes",
        96 * MEBIBYTE,
        "The maximum number of bytes outside the cache that a worker's responses may hold until clients have read "
        "them. Responses shrink as the total approaches this limit.",
        least=4096,
    )
    max_response_bytes: int = setting(
        "fetch.max.bytes",
        16 * MEBIBYTE,
        "The maximum number of bytes in one response, whatever the client requests, unless a single batch is larger.",
        least=4096,
        most=LARGEST_INT,
    )
    max_reads: int = setting(
        "fetch.max.reads",
        16,
        "The maximum number of concurrent reads from the store per worker. The limit is lower if "
        "the store prefers fewer.",
        least=1,
        most=1024,
    )
    read_ahead_bytes: int = setting(
        "fetch.read.ahead.bytes",
        16 * MEBIBYTE,
        "How many bytes to read ahead of a fetch, across all of its partitions; twice as "
        "many if the store charges for requests. 0: do not read ahead.",
    )
    zone_reads: str = setting(
        "fetch.zone.reads",
        "auto",
        "Whether the agents in a zone share their reads, so that only one of them reads each part of an object from "
        "the bucket (ADR 39). `auto`: share if the agents specify their zone and the store charges for requests. "
        "`on`: always share; agents without a zone count as one zone.",
        choices=("auto", "on", "off"),
    )
    max_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "The maximum number of incremental fetch sessions per worker. Beyond this limit, a new session replaces "
        "one that has not been used for two minutes, or one that is over two minutes old and has fewer partitions. "
        "Otherwise, the consumer fetches without a session.",
        least=1,
        most=LARGEST_INT,
    )

    max_read_bytes: int = 8 * MEBIBYTE
    """The maximum number of bytes in one read from the store, unless a single piece is larger."""
    chunk_bytes: int = 8 * MEBIBYTE
    """The agents in a zone divide an object among themselves in chunks of this size."""
    zone_patience_ms: int = 1_000
    """How long a read waits for another agent in its zone before it reads the bucket itself."""
    max_session_partitions: int = 500_000
    """The maximum number of partitions in all sessions together. Beyond this bound, consumers fetch without a
    session."""

    def __post_init__(self) -> None:
        check_settings(self)
