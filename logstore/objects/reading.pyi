from array import array

from typing_extensions import Buffer

def read_files(
    paths: list[str],
    firsts: array[int],
    positions: array[int],
    sizes: array[int],
    starts: array[int],
    buffer: Buffer,
) -> array[int]: ...
