# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Checks many pieces of segments and sets their offsets in one call, without holding the interpreter lock.

Cython compiles this module, or Python interprets it. It finds the same faults as the walks in `kernel`, which check a
bad piece again to raise the error.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython
from crc32c import crc32c

from lacuna.logstore.records import layout
from lacuna.logstore.records.errors import CorruptBatchError, RecordsError
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored

if not cython.compiled:
    from lacuna.logstore.records.integers import int64_at, uint32_at

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_MAX_INT64 = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)

if cython.compiled:
    lacuna_crc_prepare()  # noqa: F821 - declared in pieces.pxd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _has_right_crc(
    data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    if cython.compiled:
        found: cython.longlong = lacuna_crc32c(  # noqa: F821 - declared in pieces.pxd
            cython.address(data[at + 21]), end - at - 21
        )
        return found == uint32_at(data, at + 17)
    else:  # noqa: RET505 - only one of the two is compiled
        return crc32c(data[at + 21 : end]) == uint32_at(data, at + 17)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count_batches(
    data: cython.uchar[::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return how many batches of magic 2 make up data[at:end], or 0 if it contains anything else."""
    count: cython.Py_ssize_t = 0
    size: cython.longlong
    while at < end:
        if end - at < _HEADER_SIZE:
            return 0
        size = uint32_at(data, at + 8) + 12
        if size < _HEADER_SIZE or size > end - at or data[at + 16] != 2:
            return 0
        at += size
        count += 1
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _patch(
    data: cython.uchar[::1],
    at: cython.Py_ssize_t,
    piece_end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    end_offset: cython.longlong,
    has_true_offsets: cython.bint,
    verify: cython.bint,
    index: cython.Py_ssize_t,
    positions: cython.longlong[::1],
    base_offsets: cython.longlong[::1],
    last_offsets: cython.longlong[::1],
    max_timestamps: cython.longlong[::1],
) -> cython.bint:
    """Check and patch the batches of a piece, and fill the columns from `index`. Return False if the piece is bad."""
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    delta: cython.longlong
    while at < piece_end:
        end = at + uint32_at(data, at + 8) + 12
        delta = uint32_at(data, at + 23)
        if verify and not _has_right_crc(data, at, end):
            return False
        if has_true_offsets:
            if int64_at(data, at) < next_offset:
                return False
            next_offset = int64_at(data, at)
        if next_offset < 0 or delta > 0x7FFFFFFF or next_offset > _MAX_INT64 - delta - 1:
            return False
        if next_offset + delta >= end_offset:
            return False
        for i in range(8):
            data[at + i] = (next_offset >> (56 - 8 * i)) & 0xFF
        for i in range(at + 12, at + 16):
            data[i] = 0
        positions[index] = at
        base_offsets[index] = next_offset
        last_offsets[index] = next_offset + delta
        max_timestamps[index] = int64_at(data, at + 35)
        next_offset += delta + 1
        index += 1
        at = end
    # Assigned offsets must reach the end of the piece. With true offsets, the last ones may be a hole.
    return has_true_offsets or next_offset == end_offset


@cython.ccall
def walk_pieces(
    buffer: object,
    starts: object,
    base_offsets: object,
    next_offsets: object,
    true_offsets: object,
    verify: bool,
) -> object:
    """Check the batches of consecutive pieces, and set their offsets.

    Piece i is buffer[starts[i]:starts[i + 1]] and has the offsets from base_offsets[i] up to, but not including,
    next_offsets[i]. If true_offsets[i] is not 0, the batches already have their offsets, as in `walk_stored`.
    Otherwise, they take up the whole range, and their offsets are set as in `walk_and_patch`. The columns are
    array("q"). Returns layout.WalkedPieces, which describes bad pieces.
    """
    raw = memoryview(buffer)
    count: cython.Py_ssize_t = len(base_offsets)
    firsts = array("q", bytes(8 * (count + 1)))
    data: cython.uchar[::1] = raw
    start_of: cython.longlong[::1] = memoryview(starts)
    base_of: cython.longlong[::1] = memoryview(base_offsets)
    next_of: cython.longlong[::1] = memoryview(next_offsets)
    is_true: cython.longlong[::1] = memoryview(true_offsets)
    first_of: cython.longlong[::1] = memoryview(firsts)
    is_checked: cython.bint = verify
    bad = array("q", bytes(8 * (count + 1)))
    is_bad: cython.longlong[::1] = memoryview(bad)
    total: cython.longlong = 0
    batches: cython.longlong
    size: cython.longlong = len(raw)
    i: cython.Py_ssize_t
    if len(starts) != count + 1 or len(next_offsets) != count or len(true_offsets) != count:
        raise ValueError("the columns of the pieces have different lengths")
    for i in range(count):
        if start_of[i] < 0 or start_of[i + 1] < start_of[i] or start_of[i + 1] > size:
            raise ValueError(f"piece {i} lies outside the buffer")
    with cython.nogil:
        for i in range(count):
            first_of[i] = total
            batches = _count_batches(data, start_of[i], start_of[i + 1])
            is_bad[i] = batches == 0
            # A bad piece also has an entry, to mark the end of the previous piece's batches.
            total += batches + is_bad[i]
        first_of[count] = total
    columns = [array("q", bytes(8 * n)) for n in (total + 1, total, total, total)]
    positions: cython.longlong[::1] = memoryview(columns[0])
    base_column: cython.longlong[::1] = memoryview(columns[1])
    last_column: cython.longlong[::1] = memoryview(columns[2])
    time_column: cython.longlong[::1] = memoryview(columns[3])
    positions[total] = start_of[count]
    with cython.nogil:
        for i in range(count):
            positions[first_of[i]] = start_of[i]
            is_bad[i] = is_bad[i] or not _patch(
                data,
                start_of[i],
                start_of[i + 1],
                base_of[i],
                next_of[i],
                is_true[i] != 0,
                is_checked,
                first_of[i],
                positions,
                base_column,
                last_column,
                time_column,
            )
    errors = {}
    for i in range(count):
        if is_bad[i]:
            errors[i] = _error_of(
                raw[start_of[i] : start_of[i + 1]], base_of[i], is_true[i] != 0, verify
            )
    return layout.WalkedPieces(*columns, firsts, errors)


@cython.cfunc
def _error_of(
    piece: object, base_offset: cython.longlong, has_true_offsets: cython.bint, verify: bool
) -> object:
    """Return the error that is raised when this piece is checked by itself."""
    walk = walk_stored if has_true_offsets else walk_and_patch
    try:
        walk(piece, base_offset, verify)
    except RecordsError as error:
        return error
    return CorruptBatchError("its batches do not end at its last offset", 0)
