from array import array
from typing import TypeVar

from typing_extensions import Buffer

ByteArray = TypeVar("ByteArray", bound=bytearray)

def grow(buffer: ByteArray, size: int) -> ByteArray: ...
def read_files(
    paths: list[str],
    firsts: array[int],
    positions: array[int],
    sizes: array[int],
    starts: array[int],
    buffer: Buffer,
) -> array[int]: ...
