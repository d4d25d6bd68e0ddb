# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over extents in fetches and merge plans, in code that is either compiled by Cython or interpreted by
Python.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

__all__ = [
    "DEAD",
    "HOT",
    "LARGE",
    "MERGED",
    "SMALL",
    "choose_live",
    "count_common",
    "find_run",
    "kinds_of",
]

#: How merging classifies an extent: too large for a merge, aborted, in the journal, small as written, or small as
#: merged.
LARGE, DEAD, HOT, SMALL, MERGED = range(5)

if cython.compiled:
    _HOT = cython.declare(cython.longlong, 1 << 62)  # lacuna.logstore.segments.hot.HOT
    _TRUE_OFFSETS = cython.declare(
        cython.uchar, 2
    )  # lacuna.controlplane.shared.extents.FLAG_TRUE_OFFSETS
else:
    _HOT, _TRUE_OFFSETS = 1 << 62, 2

    def numbers_of(column):
        return column

    bytes_of = numbers_of

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
    """Return how many rows of `mine`, starting at `first`, equal those of `theirs`, starting at `index`.

    Both consist of columns of the same types, in the same order. At most `count` rows are compared, up to the first
    difference. Raises ValueError if there are fewer rows.
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
    """Return the first index in [start, stop) whose item is at least `value`, or `stop`, searching nearby first."""
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
    disjoint. The first live extent is always chosen. `size` is the total size so far. All columns are array("q").
    Returns the indexes as an array("q"), the new total size, and the index of the first live extent not chosen, or
    `stop`. Raises ValueError if a column is too short.
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


@cython.ccall
def kinds_of(
    extents: object,
    dead: object,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    small_bytes: cython.longlong,
) -> object:
    """Return how merging classifies each extent with index in [start, stop): an array("B") of LARGE, DEAD, and so on.

    A merged extent counts as large at half of `small_bytes`, so that it is not rewritten merely for being slightly
    smaller than that. `extents` is an ExtentTable, and `dead` a DeadRanges. Raises ValueError if one of their columns
    is too short.
    """
    lengths = {
        len(extents.lease_ids),
        len(extents.sizes),
        len(extents.flags),
        len(extents.base_offsets),
    }
    ranges: cython.Py_ssize_t = len(dead.firsts)
    if start < 0 or stop > min(lengths) or len(dead.ends) != ranges:
        raise ValueError("the columns of the extents are too short")
    kinds = array("B", bytes(max(0, stop - start)))
    out: cython.p_uchar = bytes_of(kinds)
    lease_of: cython.p_longlong = numbers_of(extents.lease_ids)
    base_of: cython.p_longlong = numbers_of(extents.base_offsets)
    size_of: cython.p_longlong = numbers_of(extents.sizes)
    flags_of: cython.p_uchar = bytes_of(extents.flags)
    first_of: cython.p_longlong = numbers_of(dead.firsts)
    end_of: cython.p_longlong = numbers_of(dead.ends)
    at: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(start, stop):
        if at < ranges and end_of[at] <= base_of[index]:
            at = _first_at_least(end_of, base_of[index] + 1, at, ranges)
        if at < ranges and first_of[at] <= base_of[index]:
            out[index - start] = 1
        elif lease_of[index] & _HOT:
            out[index - start] = 2
        elif not flags_of[index] & _TRUE_OFFSETS:
            out[index - start] = 3 if size_of[index] < small_bytes else 0
        elif 2 * size_of[index] < small_bytes:
            out[index - start] = 4
    return kinds


@cython.cfunc
@cython.exceptval(check=False)
def _end_of_run(
    kind_of: cython.p_uchar,
    size_of: cython.p_longlong,
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    first_kind: cython.int,
) -> cython.Py_ssize_t:
    """Return the index in [first, stop] at which the run that begins at `first` ends."""
    total: cython.longlong = 0
    index: cython.Py_ssize_t = first
    while index < stop and kind_of[index] >= first_kind and index - first < most:
        if kind_of[index] != 1:
            total += size_of[index]
        if total > max_bytes:
            break
        index += 1
    return index


@cython.cfunc
@cython.exceptval(check=False)
def _first_to_rewrite(
    kind_of: cython.p_uchar,
    size_of: cython.p_longlong,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Return the first index in [first, last] whose extent is not a merged one that is at least as large as all live
    extents after it together, up to `stop`.
    """
    total: cython.longlong = 0
    index: cython.Py_ssize_t
    for index in range(first, stop):
        if kind_of[index] != 1:
            total += size_of[index]
    while first < last and kind_of[first] == 4 and 2 * size_of[first] >= total:
        total -= size_of[first]
        first += 1
    return first


@cython.ccall
def find_run(
    kinds: object,
    sizes: object,
    least: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    keeps_dead: cython.bint,
) -> tuple:
    """Find the first run of extents that is worth merging, judging by the results of `kinds_of` and the extents' sizes.

    A run contains at most `most` extents and `max_bytes` live bytes, and no extent that is large or, with `keeps_dead`,
    dead. It is worth merging if it contains a dead extent or at least `least` extents. Otherwise, it is reduced to its
    hot extents and those between them.

    A merged extent at the beginning of a run is left out if it is at least as large as all those after it together, and
    the rest is still worth merging. So an extent is rewritten only a few times until it is large, rather than each time
    a few records follow it.

    Returns the indexes (start, stop), which are equal if there is no run. Raises ValueError if a column is too short.
    """
    stop: cython.Py_ssize_t = len(kinds)
    if stop != len(sizes):
        raise ValueError("the columns of the extents are too short")
    kind_of: cython.p_uchar = bytes_of(kinds)
    size_of: cython.p_longlong = numbers_of(sizes)
    first: cython.Py_ssize_t = 0
    first_kind: cython.int = 2 if keeps_dead else 1
    last: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    while True:
        while first < stop and kind_of[first] < first_kind:
            first += 1
        if first >= stop:
            return stop, stop
        last = _end_of_run(kind_of, size_of, first, stop, most, max_bytes, first_kind)
        run = kinds[first:last].tobytes()
        has_dead = DEAD in run
        if has_dead or last - first >= least:
            begin = last if has_dead else last - least
            return _first_to_rewrite(kind_of, size_of, first, begin, last), last
        if HOT in run:
            return first + run.find(HOT), first + run.rfind(HOT) + 1
        first = last + 1
