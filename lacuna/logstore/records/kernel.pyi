from typing_extensions import Buffer

from lacuna.logstore.records.layout import BatchSummary, RecordFaults, RecordTimes, WalkedBatches

def validate_records(
    section: Buffer, count: int, base_timestamp: int, require_keys: bool
) -> RecordTimes: ...
def summarize(
    buffer: Buffer, max_bytes: int, require_keys: bool, earliest: int, latest: int
) -> BatchSummary | None: ...
def find_faults(
    section: Buffer,
    count: int,
    base_timestamp: int,
    require_keys: bool,
    earliest: int,
    latest: int,
) -> RecordFaults: ...
def read_records(
    section: bytes, count: int
) -> list[
    tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]
]: ...
def walk_and_patch(buffer: Buffer, base_offset: int, verify: bool = True) -> WalkedBatches: ...
def walk_stored(buffer: Buffer, base_offset: int, verify: bool = True) -> WalkedBatches: ...
