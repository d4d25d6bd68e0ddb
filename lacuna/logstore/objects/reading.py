# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Sorts, groups and reads many ranges of many objects at once. Cython compiles this module, or it runs as Python.

The compiled form runs without the interpreter's lock. A Python loop would have to acquire the lock between any two
system calls; for objects of around ten kilobytes, that would take most of a read's time.
"""

from __future__ import annotations

import os
from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

if not cython.compiled:

    def _read_file(path: str, ranges: list[tuple[int, int, int]], buffer: memoryview) -> list[int]:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return [-error.errno for _ in ranges]
        try:
            return [
                _read(file, position, buffer[start : start + size])
                for position, size, start in ranges
            ]
        finally:
            os.close(file)

    def _read(file: int, position: int, out: memoryview) -> int:
        filled = 0
        try:
            while filled < len(out) and (
                count := os.preadv(file, [out[filled:]], position + filled)
            ):
                filled += count
        except OSError as error:
            return -error.errno
        return filled


@cython.ccall
def grow(buffer: object, size: cython.Py_ssize_t) -> object:
    """Extend an empty bytearray to `size` bytes with undefined content, and return it.

    Clearing the memory first would take up to a quarter of the read's time.
    """
    if cython.compiled:
        PyByteArray_Resize(buffer, size)  # noqa: F821 - declared in reading.pxd
    else:
        buffer[:] = bytes(size)
    return buffer


@cython.ccall
def take(column: object, indexes: object) -> object:
    """Return the values of an array("q") or array("B") at the given indexes, an array("q"), in that order.

    Raises IndexError for an index that does not exist.
    """
    count: cython.Py_ssize_t = len(indexes)
    known: cython.Py_ssize_t = len(column)
    index_of: cython.longlong[::1] = memoryview(indexes)
    k: cython.Py_ssize_t
    for k in range(count):
        if index_of[k] < 0 or index_of[k] >= known:
            raise IndexError(f"there is no value {index_of[k]}")
    if column.typecode == "B":
        taken = array("B", bytes(count))
        flags: cython.uchar[::1] = memoryview(column)
        flags_out: cython.uchar[::1] = memoryview(taken)
        for k in range(count):
            flags_out[k] = flags[index_of[k]]
        return taken
    taken = array("q", bytes(8 * count))
    values: cython.longlong[::1] = memoryview(column)
    values_out: cython.longlong[::1] = memoryview(taken)
    for k in range(count):
        values_out[k] = values[index_of[k]]
    return taken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_before(
    ids: cython.longlong[::1],
    more_ids: cython.longlong[::1],
    positions: cython.longlong[::1],
    i: cython.longlong,
    j: cython.longlong,
) -> cython.bint:
    if ids[i] != ids[j]:
        return ids[i] < ids[j]
    if more_ids[i] != more_ids[j]:
        return more_ids[i] < more_ids[j]
    return positions[i] < positions[j]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _merge(
    ids: cython.longlong[::1],
    more_ids: cython.longlong[::1],
    positions: cython.longlong[::1],
    order: cython.longlong[::1],
    out: cython.longlong[::1],
    width: cython.Py_ssize_t,
) -> cython.void:
    """Merge each pair of adjacent sorted sections of `width` indexes into one section of `out`."""
    count: cython.Py_ssize_t = order.shape[0]
    begin: cython.Py_ssize_t = 0
    while begin < count:
        middle: cython.Py_ssize_t = min(begin + width, count)
        end: cython.Py_ssize_t = min(middle + width, count)
        left: cython.Py_ssize_t = begin
        right: cython.Py_ssize_t = middle
        for k in range(begin, end):
            if right == end or (
                left < middle
                and not _is_before(ids, more_ids, positions, order[right], order[left])
            ):
                out[k] = order[left]
                left += 1
            else:
                out[k] = order[right]
                right += 1
        begin = end


@cython.ccall
def sort_ranges(ids: object, more_ids: object, positions: object) -> object:
    """Return the indexes of ranges sorted by first id, second id and position.

    All columns and the result are array("q"). Raises ValueError if the columns differ in length.
    """
    count: cython.Py_ssize_t = len(positions)
    if len(ids) != count or len(more_ids) != count:
        raise ValueError("the columns of the ranges have different lengths")
    order = array("q", range(count))
    if not cython.compiled:
        places = list(zip(ids, more_ids, positions, strict=True))
        return array("q", sorted(order, key=places.__getitem__))
    other = array("q", order)
    id_of: cython.longlong[::1] = memoryview(ids)
    more_of: cython.longlong[::1] = memoryview(more_ids)
    position_of: cython.longlong[::1] = memoryview(positions)
    here: cython.longlong[::1] = memoryview(order)
    there: cython.longlong[::1] = memoryview(other)
    width: cython.Py_ssize_t = 1
    is_there: cython.bint = False
    with cython.nogil:
        while width < count:
            if is_there:
                _merge(id_of, more_of, position_of, there, here, width)
            else:
                _merge(id_of, more_of, position_of, here, there, width)
            is_there = not is_there
            width *= 2
    return other if is_there else order


@cython.cfunc
def _marks(part: object, heads: object) -> object:
    """Return a byte for each index in the runs: 1 if in `part`, else 0. Raises the same errors as `divide_runs`."""
    index_of: cython.longlong[::1] = memoryview(part)
    i: cython.Py_ssize_t
    if not len(heads) or heads[0] != 0 or list(heads) != sorted(heads):
        raise ValueError("the runs do not begin at 0, or are not in order")
    total: cython.Py_ssize_t = heads[len(heads) - 1]
    marks = array("q", bytes(8 * total))
    mark_of: cython.longlong[::1] = memoryview(marks)
    for i in range(len(part)):
        if index_of[i] < 0 or index_of[i] >= total or mark_of[index_of[i]] != 0:
            raise ValueError(f"index {index_of[i]} is in no run, or appears twice")
        mark_of[index_of[i]] = 1
    return marks


@cython.ccall
def divide_runs(part: object, heads: object) -> object:
    """Sort a subset of the indexes in ordered runs, and divide it into groups of consecutive indexes from one run.

    Run i consists of the indexes heads[i] to heads[i + 1] - 1. `part` is the subset, in any order and without
    duplicates. All arguments are array("q"). Returns three columns: the subset in ascending order; the place of each
    element of `part` in that order; and the place where each group begins, followed by the length. Raises ValueError if
    an index is in no run or appears twice in `part`, or if `heads` is not in order.
    """
    count: cython.Py_ssize_t = len(part)
    places = _marks(part, heads)
    total: cython.Py_ssize_t = len(places)
    ordered = array("q", bytes(8 * count))
    order = array("q", bytes(8 * count))
    bounds = array("q", bytes(8 * (count + 1)))
    index_of: cython.longlong[::1] = memoryview(part)
    head_of: cython.longlong[::1] = memoryview(heads)
    place_of: cython.longlong[::1] = memoryview(places)
    ordered_out: cython.longlong[::1] = memoryview(ordered)
    order_out: cython.longlong[::1] = memoryview(order)
    bound_out: cython.longlong[::1] = memoryview(bounds)
    at: cython.Py_ssize_t = 0
    run: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(total):
        while head_of[run + 1] <= i:
            run += 1
        if place_of[i]:
            if at == 0 or head_of[run] == i or ordered_out[at - 1] != i - 1:
                bound_out[found] = at
                found += 1
            place_of[i] = at
            ordered_out[at] = i
            at += 1
    for i in range(count):
        order_out[i] = place_of[index_of[i]]
    bound_out[found] = at
    return [ordered, order, bounds[: found + 1]]


@cython.ccall
def group_ranges(
    ids: object,
    more_ids: object,
    positions: object,
    sizes: object,
    starts: object,
    order: object,
    gap: cython.longlong,
    most: cython.longlong,
    chunk: cython.longlong = 0x7FFFFFFFFFFFFFFF,
) -> object:
    """Put ranges of objects into the order given by the indexes in `order`, and group ranges to be read together.

    Two ranges belong to the same object if both of their ids are equal. A group consists of consecutive ranges of one
    object with gaps of 0 to `gap` bytes, which all begin in the same chunk of `chunk` bytes (at least 1). It spans at
    most `most` bytes, unless it is a single range. All columns are array("q"). Returns five columns: where each group
    begins, followed by the number of ranges; how many bytes each group spans; and the positions, sizes and starts in
    the new order. Raises ValueError if a column is too short or an index is invalid.
    """
    count: cython.Py_ssize_t = len(order)
    known: cython.Py_ssize_t = len(positions)
    if min(len(ids), len(more_ids), len(sizes), len(starts)) < known:
        raise ValueError("the columns of the ranges have different lengths")
    firsts = array("q", bytes(8 * (count + 1)))
    spans = array("q", bytes(8 * count))
    columns = [array("q", bytes(8 * count)) for _ in range(3)]
    id_of: cython.longlong[::1] = memoryview(ids)
    more_of: cython.longlong[::1] = memoryview(more_ids)
    position_of: cython.longlong[::1] = memoryview(positions)
    size_of: cython.longlong[::1] = memoryview(sizes)
    start_of: cython.longlong[::1] = memoryview(starts)
    index_of: cython.longlong[::1] = memoryview(order)
    first_of: cython.longlong[::1] = memoryview(firsts)
    span_of: cython.longlong[::1] = memoryview(spans)
    position_out: cython.longlong[::1] = memoryview(columns[0])
    size_out: cython.longlong[::1] = memoryview(columns[1])
    start_out: cython.longlong[::1] = memoryview(columns[2])
    groups: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = 0
    begin: cython.longlong = 0
    end: cython.longlong = 0
    between: cython.longlong
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    for k in range(count):
        if index_of[k] < 0 or index_of[k] >= known:
            raise ValueError(f"there is no range {index_of[k]}")
    with cython.nogil:
        for k in range(count):
            i = index_of[k]
            between = position_of[i] - end
            if (
                k == 0
                or id_of[i] != id_of[last]
                or more_of[i] != more_of[last]
                or between < 0
                or between > gap
                or position_of[i] + size_of[i] - begin > most
                or position_of[i] // chunk != begin // chunk
            ):
                begin = position_of[i]
                first_of[groups] = k
                groups += 1
            end = position_of[i] + size_of[i]
            span_of[groups - 1] = end - begin
            position_out[k] = position_of[i]
            size_out[k] = size_of[i]
            start_out[k] = start_of[i]
            last = i
        first_of[groups] = count
    return [firsts[: groups + 1], spans[:groups], *columns]


@cython.ccall
def read_files(
    paths: list,
    firsts: object,
    positions: object,
    sizes: object,
    starts: object,
    buffer: object,
) -> object:
    """For each i, read the ranges firsts[i] to firsts[i + 1] - 1 from the file paths[i] into a writable buffer.

    Range k is the `sizes[k]` bytes at `positions[k]`, which go to starts[k] in `buffer`. All arguments except the first
    and last are array("q"). Returns an array("q") with the number of bytes read for each range, or -errno. Raises
    ValueError for a range that does not fit into the buffer.
    """
    count: cython.Py_ssize_t = len(positions)
    files: cython.Py_ssize_t = len(paths)
    counts = array("q", bytes(8 * count))
    size: cython.longlong = len(buffer)
    start_of: cython.longlong[::1] = memoryview(starts)
    size_of: cython.longlong[::1] = memoryview(sizes)
    k: cython.Py_ssize_t
    if len(starts) != count or len(sizes) != count or len(firsts) != files + 1:
        raise ValueError("the columns of a read have different lengths")
    if firsts[0] != 0 or firsts[files] != count:
        raise ValueError("the files of a read do not cover all of its ranges")
    first_of: cython.longlong[::1] = memoryview(firsts)
    for k in range(files):
        if first_of[k] > first_of[k + 1]:
            raise ValueError("the files of a read are not in the order of its ranges")
    for k in range(count):
        if start_of[k] < 0 or size_of[k] < 1 or start_of[k] > size - size_of[k]:
            raise ValueError(f"range {k} does not fit the buffer")
    if not count:
        return counts
    if cython.compiled:
        names: bytes = os.fsencode("\0".join(paths)) + b"\0"
        name: cython.p_char = names
        position_of: cython.longlong[::1] = memoryview(positions)
        count_of: cython.longlong[::1] = memoryview(counts)
        out: cython.uchar[::1] = memoryview(buffer)
        with cython.nogil:
            lacuna_read_files(  # noqa: F821 - declared in reading.pxd
                name,
                files,
                cython.address(first_of[0]),
                cython.address(position_of[0]),
                cython.address(size_of[0]),
                cython.address(start_of[0]),
                cython.address(out[0]),
                cython.address(count_of[0]),
            )
    else:
        view = memoryview(buffer)
        for i, path in enumerate(paths):
            ranges = range(firsts[i], firsts[i + 1])
            asked = [(positions[j], sizes[j], starts[j]) for j in ranges]
            counts[firsts[i] : firsts[i + 1]] = array("q", _read_file(path, asked, view))
    return counts
