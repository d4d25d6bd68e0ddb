# What `kernel.py` calls in its compiled form.

from lacuna.logstore.records.integers cimport int32_at, int64_at
