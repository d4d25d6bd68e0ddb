# What `encoding.py` calls in its compiled form.

cdef extern from "string.h":
    void *memcpy(void *target, const void *source, size_t size) nogil
