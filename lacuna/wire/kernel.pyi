from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

_Frame = TypeVar("_Frame", bound=NamedTuple)

ABSENT: Final = 0
BOOL: Final = 1
INT8: Final = 2
INT16: Final = 3
UINT16: Final = 4
INT32: Final = 5
UINT32: Final = 6
INT64: Final = 7
FLOAT64: Final = 8
UUID: Final = 9
STRING: Final = 10
BYTES: Final = 11
STRUCT: Final = 12
RECORDS: Final = 13
BUFFERS: Final = 14
ARRAY: Final = 16
NULLABLE: Final = 32
COMPACT: Final = 64
SIZES: Final[bytes]
LONGEST_STRING: Final = 0x7FFF
LONGEST_ARRAY: Final = 1_000_000
MOST_ELEMENTS: Final = 2_000_000
MOST_TAGS: Final = 10_000

class Plan:
    def __init__(
        self,
        make: type,
        codes: bytes,
        defaults: tuple[Any, ...],
        inner: tuple[Plan | None, ...],
        least: tuple[int, ...],
        is_flexible: bool,
        tag_codes: bytes,
        tags: Mapping[int, int],
    ) -> None: ...

class Encoded:
    count: int
    size: int
    buffers: list[bytes | bytearray | memoryview]
    def __init__(self) -> None: ...

class Codec:
    elements: int
    errors: list[int] | None
    def __init__(
        self, plan_of: Callable[[int], Plan], last_version: int, is_exact: bool
    ) -> None: ...
    def read(self, body: memoryview, version: int, most: int = MOST_ELEMENTS) -> Any: ...
    def write(self, message: Any, version: int) -> bytes: ...
    def buffers(self, message: Any, version: int) -> tuple[bytes | bytearray | memoryview, ...]: ...
    def add_elements(
        self, before: Encoded | None, elements: Sequence[Any], version: int, path: tuple[str, ...]
    ) -> Encoded: ...

def cut(
    data: memoryview, most: int, header_versions: dict[int, int], make: type[_Frame]
) -> tuple[list[_Frame], int]: ...
def after_tags(data: memoryview, position: int) -> int: ...
def hasten(make: type, defaults: tuple[Any, ...]) -> None: ...
