# The C functions that `kernel.py` calls in its compiled form.

from lacuna.logstore.records.integers cimport (
    int16_at, int32_at, int64_at, overflows, put_int, uint32_at
)
from lacuna.logstore.records.rewriting cimport batch_size
