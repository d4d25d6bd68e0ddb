# What `rewriting.py` calls in its compiled form.

from lacuna.logstore.records.integers cimport int32_at, int64_at

cdef extern from "string.h":
    void *memcpy(void *target, const void *source, size_t size) nogil
