from array import array
from typing import Final

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable

def count_common(
    mine: tuple[array[int], ...],
    first: int,
    theirs: tuple[array[int], ...],
    index: int,
    count: int,
) -> int: ...
def choose_live(
    base_offsets: array[int],
    sizes: array[int],
    firsts: array[int],
    ends: array[int],
    start: int,
    stop: int,
    size: int,
    max_bytes: int,
) -> tuple[array[int], int, int]: ...
def kinds_of(
    extents: ExtentTable, dead: DeadRanges, start: int, stop: int, small_bytes: int
) -> array[int]: ...
def find_run(
    kinds: array[int],
    sizes: array[int],
    least: int,
    most: int,
    max_bytes: int,
    keeps_dead: bool,
) -> tuple[int, int]: ...

LARGE: Final = 0
DEAD: Final = 1
HOT: Final = 2
SMALL: Final = 3
MERGED: Final = 4
