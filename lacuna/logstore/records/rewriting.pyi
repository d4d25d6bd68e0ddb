from array import array
from collections.abc import Iterable

from typing_extensions import Buffer

class Rewriter:
    def __init__(
        self,
        *,
        codec: int = -1,
        compression_level: int | None = None,
        max_bytes: int = ...,
        max_decompressed_bytes: int = ...,
        keeps_horizons: bool = False,
        delete_horizon: int = -1,
    ) -> None: ...
    def add(self, batches: Buffer, dropped: array[int] | None = None) -> None: ...
    def end_batch(self) -> None: ...
    def take(self) -> list[bytes]: ...

class KeyTable:
    keys: int
    superseded: int
    tombstones: int
    last_horizon: int
    def __init__(self, max_bytes: int, secret: bytes) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def note(self, batch: Buffer, first_offset: int, end_offset: int) -> int: ...
    def sweep(self, batch: Buffer, now_ms: int, drops_tombstones: bool) -> array[int]: ...
    def take_new(self) -> bool: ...

def coalesce(
    chunks: Iterable[Buffer],
    codec: int = -1,
    max_bytes: int = ...,
    max_decompressed_bytes: int = ...,
) -> list[bytes]: ...
def has_tombstones(batch: Buffer) -> bool: ...
def batch_size(data: Buffer, at: int, end: int) -> int: ...
