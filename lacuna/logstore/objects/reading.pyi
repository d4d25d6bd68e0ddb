from array import array
from typing import TypeVar

from typing_extensions import Buffer

ByteArray = TypeVar("ByteArray", bound=bytearray)

def grow(buffer: ByteArray, size: int) -> ByteArray: ...
def take(column: array[int], indexes: array[int]) -> array[int]: ...
def sort_ranges(ids: array[int], more_ids: array[int], positions: array[int]) -> array[int]: ...
def divide_runs(part: array[int], heads: array[int]) -> list[array[int]]: ...
def group_ranges(
    ids: array[int],
    more_ids: array[int],
    positions: array[int],
    sizes: array[int],
    starts: array[int],
    order: array[int],
    gap: int,
    most: int,
    chunk: int = ...,
) -> list[array[int]]: ...
def read_files(
    paths: list[str],
    firsts: array[int],
    positions: array[int],
    sizes: array[int],
    starts: array[int],
    buffer: Buffer,
) -> array[int]: ...
