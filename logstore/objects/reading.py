# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Many ranges of many files in one call: one source, compiled by Cython or run by Python as it is.

When compiled, it runs without the interpreter's lock. A loop in Python would wait for that lock between
any two system calls, and with objects of ten kilobytes or so that is most of the time of a read.
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
        """Do for one file what `lacuna_read_files` does."""
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
    """Make an empty bytearray `size` bytes long, with undefined content, and return it.

    Clearing the memory first would take up to a quarter of the time of the read.
    """
    if cython.compiled:
        PyByteArray_Resize(buffer, size)  # noqa: F821 - declared in reading.pxd
    else:
        buffer[:] = bytes(size)
    return buffer


@cython.ccall
def read_files(
    paths: list,
    firsts: object,
    positions: object,
    sizes: object,
    starts: object,
    buffer: object,
) -> object:
    """Read the ranges firsts[i] to firsts[i + 1] - 1 of the file paths[i], for each i, into a writable buffer.

    Range k is `sizes[k]` bytes from `positions[k]` on, and goes to starts[k] in `buffer`. All
    arguments but the first and last are array("q"), and so is what is returned: for each range, how
    many bytes were read, or -errno.
    Raises ValueError for a range that does not fit the buffer.
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
    for k in range(count):
        if start_of[k] < 0 or size_of[k] < 1 or start_of[k] > size - size_of[k]:
            raise ValueError(f"range {k} does not fit the buffer")
    if not count:
        return counts
    if cython.compiled:
        names: bytes = os.fsencode("\0".join(paths)) + b"\0"
        name: cython.p_char = names
        first_of: cython.longlong[::1] = memoryview(firsts)
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
