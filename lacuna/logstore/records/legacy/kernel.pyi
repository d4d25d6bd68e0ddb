from typing_extensions import Buffer

class SectionWriter:
    count: int
    base_timestamp: int
    max_timestamp: int
    def __init__(self) -> None: ...
    def add(
        self, message_set: Buffer, position: int, is_inner: bool = False
    ) -> tuple[int, bool]: ...
    def section(self) -> memoryview: ...

class RecordReader:
    left: int
    is_cut: bool
    def __init__(
        self,
        section: bytes,
        *,
        record_count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None: ...
    def plain(
        self, magic: int, attributes: int, first_offset: int, room: int, may_exceed: bool
    ) -> memoryview: ...
    def inner(self, most: int, magic: int, attributes: int) -> tuple[memoryview, int, int]: ...
