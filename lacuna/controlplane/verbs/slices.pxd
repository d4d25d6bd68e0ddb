# The C functions that `slices.py` calls in its compiled form: bytes and arrays without a Python call for each number.

from cpython.array cimport array
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcmp, memcpy

from lacuna.logstore.records.integers cimport numbers_of

cdef extern from *:
    """
    #include <stdint.h>

    static inline int64_t lacuna_int64(const unsigned char *from)
    {
        uint64_t bits = 0;
        for (int i = 7; i >= 0; i--)
            bits = bits << 8 | from[i];
        return (int64_t)bits;
    }

    static inline uint32_t lacuna_uint32(const unsigned char *from)
    {
        return from[0] | from[1] << 8 | from[2] << 16 | (uint32_t)from[3] << 24;
    }

    static inline unsigned char *lacuna_put(unsigned char *to, int64_t value, int width)
    {
        for (int i = 0; i < width; i++)
            to[i] = (unsigned char)((uint64_t)value >> 8 * i);
        return to + width;
    }

    /* The beginning of CPython's arrayobject, which no header of it declares. */
    typedef struct {
        PyObject_VAR_HEAD
        char *items;
        Py_ssize_t allocated;
        const void *kind;
        PyObject *weak_references;
        Py_ssize_t views;
    } lacuna_array;

    /* Make an array one item longer if it has the room, and nobody a view of it. */
    static inline int lacuna_lengthen(PyObject *object)
    {
        lacuna_array *array = (lacuna_array *)object;
        if (Py_SIZE(object) >= array->allocated || array->views)
            return 0;
        Py_SET_SIZE((PyVarObject *)object, Py_SIZE(object) + 1);
        return 1;
    }
    """
    bint lengthen "lacuna_lengthen"(object array)
    long long int64_of "lacuna_int64"(const unsigned char *data) nogil
    unsigned int uint32_of "lacuna_uint32"(const unsigned char *data) nogil
    unsigned char *put "lacuna_put"(unsigned char *to, long long value, int width) nogil


cdef inline long long number_at(object numbers, Py_ssize_t index) except? -9:
    if not 0 <= index < len(numbers):
        raise IndexError("no such number")
    return numbers_of(numbers)[index]


cdef inline int set_last(object numbers, long long value) except -1:
    if not len(numbers):
        raise IndexError("no such number")
    numbers_of(numbers)[len(numbers) - 1] = value
    return 0


cdef inline int append(object numbers, long long value) except -1:
    """The array's items are as wide as one of ExtentTable's columns, and the value fits."""
    cdef array found = <array?>numbers
    cdef Py_ssize_t at = len(found)
    if not lengthen(found):
        found.append(0)
    if found.ob_descr.itemsize == 8:
        found.data.as_longlongs[at] = value
    elif found.ob_descr.itemsize == 4:
        found.data.as_ints[at] = <int>value
    elif found.ob_descr.itemsize == 2:
        found.data.as_shorts[at] = <short>value
    else:
        found.data.as_uchars[at] = <unsigned char>value
    return 0
