# The C functions that `encoding.py` calls in its compiled form.

from lacuna.logstore.records.integers cimport copy, is_far, put_varint, varint_size
