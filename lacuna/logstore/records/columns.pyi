from collections.abc import Callable, Iterator

from typing_extensions import Buffer

from lacuna.logstore.records.column_layout import BinaryColumn as BinaryColumn
from lacuna.logstore.records.column_layout import HeaderColumn as HeaderColumn
from lacuna.logstore.records.column_layout import RecordColumns as RecordColumns

MAX_BYTES: int
MAX_RECORDS: int

class ColumnBuilder:
    def __init__(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = False,
        tombstones: bool = False,
        max_bytes: int = ...,
        max_records: int = ...,
        max_decompressed_bytes: int = ...,
        expected_bytes: int = 0,
        allocate: Callable[[int], object] | None = None,
    ) -> None: ...
    def read(
        self,
        batches: Buffer,
        position: int = 0,
        end: int = -1,
        *,
        first_offset: int = 0,
        end_offset: int = ...,
        min_timestamp: int = ...,
        max_timestamp: int = ...,
    ) -> Iterator[RecordColumns]: ...
    def take(self) -> RecordColumns | None: ...

def scan_keys(
    batches: Buffer, first_offset: int = 0, end_offset: int = ...
) -> Iterator[RecordColumns]: ...
