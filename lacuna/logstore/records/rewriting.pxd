# Declarations for the compiled forms of `rewriting.py` and of `kernel.py`, which calls it.

from lacuna.logstore.records.integers cimport (
    copy, int32_at, int64_at, is_far, overflows, put_varint
)

cpdef Py_ssize_t batch_size(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1
