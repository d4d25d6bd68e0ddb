# C functions for the compiled form of `columns.py`: buffers that grow without being cleared or copied.

from libc.string cimport memcpy

from lacuna.logstore.records.integers cimport int32_at, int64_at
from lacuna.logstore.records.rewriting cimport batch_size

cdef extern from "Python.h":
    char *PyByteArray_AS_STRING(object array)
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1
