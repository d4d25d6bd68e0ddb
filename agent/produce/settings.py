"""What an operator may choose about producing; sizes in bytes."""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """Raises ValueError for what cannot work."""

    flush_interval_ms: int = 0
    """How long the first batch of a flush waits for others. 0: until the flush in flight ends, which
    is right for a local store; about 250 for S3, where every PUT is paid for."""
    flush_bytes: int = 8 * MEBIBYTE
    """A flush with as much does not wait."""
    max_flushes: int = 4
    """Segments that are being written at once."""
    max_queued_bytes: int = 512 * MEBIBYTE
    """Batches beyond this are refused until there is room; clients send them again. The requests in memory are
    bounded already (max_agent_bytes), but compression.type=uncompressed makes them larger."""
    commit_timeout_ms: int = 20_000
    """How long a commit whose reply was lost is sent again before its batches fail."""

    def __post_init__(self) -> None:
        if not 0 <= self.flush_interval_ms <= 60_000:
            raise ValueError(
                f"flush_interval_ms is {self.flush_interval_ms}: choose 0 to 60000 milliseconds"
            )
        for name in ("flush_bytes", "max_flushes", "max_queued_bytes", "commit_timeout_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
