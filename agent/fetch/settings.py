"""What an operator may choose about fetching; sizes in bytes."""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Raises ValueError for what cannot work."""

    cache_bytes: int = 128 * MEBIBYTE
    """Payload and columns in memory, of one worker."""
    answer_bytes: int = 96 * MEBIBYTE
    """Payload beyond the cache that answers hold until clients have taken them, of one worker. The
    nearer it is, the smaller answers become."""
    max_response_bytes: int = 16 * MEBIBYTE
    """fetch.max.bytes of the broker: what one answer holds at most, whatever the client asks."""
    max_read_bytes: int = 8 * MEBIBYTE
    """One read of the store."""
    max_reads: int = 16
    """Reads at once, and threads for them, where the store likes as many."""
    read_ahead_bytes: int = 16 * MEBIBYTE
    """Live bytes behind what was asked that are read before they are asked for, of all partitions of
    a fetch together; 0 for none."""
    max_sessions: int = 1000
    """max.incremental.fetch.session.cache.slots"""
    max_session_partitions: int = 500_000
    """Of all sessions together; the sessions used least lately end where there are more."""

    def __post_init__(self) -> None:
        for name in ("cache_bytes", "answer_bytes", "max_response_bytes", "max_read_bytes"):
            if getattr(self, name) < 4096:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 4096 or more")
        for name in ("max_reads", "max_sessions", "max_session_partitions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
        if self.read_ahead_bytes < 0:
            raise ValueError(f"read_ahead_bytes is {self.read_ahead_bytes}: choose 0 or more")
