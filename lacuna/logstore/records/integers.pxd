# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# The functions of `integers.py` for compiled modules. None of them needs the interpreter.

from cpython.array cimport array
from libc.string cimport memcpy

cdef inline long long int64_at(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long value = 0
    cdef Py_ssize_t i
    for i in range(at, at + 8):
        value = (value << 8) | data[i]
    return <long long>value


cdef inline long long uint32_at(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef long long value = 0
    cdef Py_ssize_t i
    for i in range(at, at + 4):
        value = (value << 8) | data[i]
    return value


cdef inline long long int32_at(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return <int>uint32_at(data, at)


cdef inline long long int16_at(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    return <short>((data[at] << 8) | data[at + 1])


cdef inline void put_int(unsigned char[::1] out, Py_ssize_t at, long long value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        out[at + i] = <unsigned char>((value >> (8 * (width - 1 - i))) & 0xFF)


cdef inline Py_ssize_t put_varint(unsigned char[::1] out, Py_ssize_t at, long long value) noexcept nogil:
    cdef unsigned long long bits = <unsigned long long>((value << 1) ^ (value >> 63))
    while bits > 0x7F:
        out[at] = <unsigned char>((bits & 0x7F) | 0x80)
        bits >>= 7
        at += 1
    out[at] = <unsigned char>bits
    return at + 1


cdef inline Py_ssize_t varint_size(long long value) noexcept nogil:
    cdef unsigned long long bits = <unsigned long long>((value << 1) ^ (value >> 63))
    cdef Py_ssize_t size = 1
    while bits > 0x7F:
        bits >>= 7
        size += 1
    return size


cdef inline Py_ssize_t copy(
    unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] data, Py_ssize_t start, long long length
) noexcept nogil:
    if length <= 0:
        return at
    memcpy(&out[at], &data[start], length)
    return at + length


cdef inline bint overflows(long long base, long long delta) noexcept nogil:
    if delta >= 0:
        return base > <long long>0x7FFFFFFFFFFFFFFF - delta
    return base < -<long long>0x7FFFFFFFFFFFFFFF - 1 - delta


cdef inline bint is_far(long long base, long long other) noexcept nogil:
    if base >= 0:
        return other < base - <long long>0x7FFFFFFFFFFFFFFF - 1
    return other > base + <long long>0x7FFFFFFFFFFFFFFF


cdef inline long long *numbers_of(object column) except? NULL:
    """Return the items of an array("q"), which must not grow while they are in use."""
    cdef array found = <array?>column
    if found.ob_descr.itemsize != 8:
        raise ValueError("not an array of 64-bit integers")
    return found.data.as_longlongs
