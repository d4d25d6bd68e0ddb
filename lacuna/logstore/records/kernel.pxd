# C functions for the compiled form of `kernel.py`.

from lacuna.logstore.records.integers cimport (
    int16_at, int32_at, int64_at, overflows, put_int, uint32_at
)
from lacuna.logstore.records.rewriting cimport batch_size
