# The C functions that `choosing.py` calls in its compiled form. They use pointers, since Cython's memoryviews take
# seconds to compile.

from cpython.array cimport array

from lacuna.logstore.records.integers cimport numbers_of

cdef extern from *:
    """
    #include <Python.h>
    #include <string.h>

    /* How many items `mine` from `first` on and `theirs` from `index` on have in common, at most `count`; -1 with an
       exception if one of them is too short for `count`, or their items have different sizes. */
    static Py_ssize_t lacuna_common(
        PyObject *mine, Py_ssize_t first, PyObject *theirs, Py_ssize_t index, Py_ssize_t count)
    {
        Py_buffer ours, others;
        if (PyObject_GetBuffer(mine, &ours, PyBUF_SIMPLE))
            return -1;
        if (PyObject_GetBuffer(theirs, &others, PyBUF_SIMPLE)) {
            PyBuffer_Release(&ours);
            return -1;
        }
        Py_ssize_t size = ours.itemsize;
        if (size != others.itemsize || first < 0 || index < 0
            || first > ours.len / size - count || index > others.len / size - count) {
            PyErr_SetString(PyExc_ValueError, "the columns are too short, or have different items");
            count = -1;
        } else {
            const char *a = (const char *)ours.buf + first * size;
            const char *b = (const char *)others.buf + index * size;
            if (memcmp(a, b, count * size))
                for (Py_ssize_t i = 0;; i++)
                    if (memcmp(a + i * size, b + i * size, size)) {
                        count = i;
                        break;
                    }
        }
        PyBuffer_Release(&ours);
        PyBuffer_Release(&others);
        return count;
    }
    """
    Py_ssize_t lacuna_common(
        object mine, Py_ssize_t first, object theirs, Py_ssize_t index, Py_ssize_t count
    ) except -1


cdef inline unsigned char *bytes_of(object column) except? NULL:
    """The items of an array("B"), which must not grow as long as they are used."""
    cdef array found = <array?>column
    if found.ob_descr.itemsize != 1:
        raise ValueError("the column does not hold bytes")
    return found.data.as_uchars
