from array import array

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
