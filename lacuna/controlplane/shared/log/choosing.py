# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over extents that each fetch runs: one source, compiled by Cython or interpreted by Python."""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

__all__ = ["choose_live", "count_common"]

if not cython.compiled:

    def numbers_of(column):
        return column

    def lacuna_common(mine, first, theirs, index, count):
        ours, others = mine[first : first + count], theirs[index : index + count]
        if first < 0 or index < 0 or not len(ours) == len(others) == count:
            raise ValueError("the columns are too short, or have different items")
        if ours == others:
            return count
        return next(i for i in range(count) if ours[i] != others[i])


@cython.ccall
def count_common(
    mine: tuple,
    first: cython.Py_ssize_t,
    theirs: tuple,
    index: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Return how many rows of `mine` from `first` on equal those of `theirs` from `index` on.

    Both are columns of the same types, in the same order. Compares `count` rows, up to the first difference. Raises
    ValueError if there are fewer.
    """
    i: cython.Py_ssize_t
    if len(mine) != len(theirs):
        raise ValueError("one has more columns than the other")
    for i in range(len(mine)):
        count = lacuna_common(mine[i], first, theirs[i], index, count)
    return count


@cython.cfunc
@cython.exceptval(check=False)
def _first_at_least(
    column: cython.p_longlong,
    value: cython.longlong,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Return the first index in [start, stop) of at least this value, else `stop`. Searches nearby first."""
    step: cython.Py_ssize_t = 1
    middle: cython.Py_ssize_t
    while start < stop and column[min(start + step, stop) - 1] < value:
        start = min(start + step, stop)
        step *= 2
    stop = min(start + step, stop)
    while start < stop:
        middle = (start + stop) // 2
        if column[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@cython.ccall
def choose_live(
    base_offsets: object,
    sizes: object,
    firsts: object,
    ends: object,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    size: cython.longlong,
    max_bytes: cython.longlong,
) -> tuple:
    """Choose live extents in order, from those with index in [start, stop), until they reach `max_bytes`.

    An extent is dead if its base offset lies in one of the ranges [firsts[i], ends[i]), which are in order and
    disjoint. `size` is the size before the first one, which is always chosen. All columns are array("q"). Returns the
    indexes as an array("q"), the size including them, and the index of the first live extent that was not chosen, or
    `stop` if there is none. Raises ValueError if a column is too short.
    """
    if start < 0 or stop > len(base_offsets) or stop > len(sizes) or len(firsts) != len(ends):
        raise ValueError("the columns of the extents are too short")
    chosen = array("q")
    base_of: cython.p_longlong = numbers_of(base_offsets)
    size_of: cython.p_longlong = numbers_of(sizes)
    first_of: cython.p_longlong = numbers_of(firsts)
    end_of: cython.p_longlong = numbers_of(ends)
    out: cython.p_longlong = numbers_of(chosen)
    ranges: cython.Py_ssize_t = len(firsts)
    first_range: cython.Py_ssize_t = 0
    if start < stop and ranges:
        first_range = _first_at_least(end_of, base_of[start] + 1, 0, ranges)
    at: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t = start
    total: cython.longlong = size
    is_writing: cython.bint
    # Once to count them, and once to write them.
    for is_writing in (False, True):
        if is_writing:
            chosen = array("q", bytes(8 * found))
            out = numbers_of(chosen)
        at, found, index, total = first_range, 0, start, size
        while index < stop:
            while at < ranges and end_of[at] <= base_of[index]:
                at += 1
            if at < ranges and first_of[at] <= base_of[index]:
                index = _first_at_least(base_of, end_of[at], index, stop)
                continue
            if found and total >= max_bytes:
                break
            if is_writing:
                out[found] = index
            found += 1
            total += size_of[index]
            index += 1
    return chosen, total, index
