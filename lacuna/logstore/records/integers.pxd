# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# What `integers.py` has, as the kernel's modules call it where they are compiled.

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
