# C functions for the compiled form of `encoding.py`.

from lacuna.logstore.records.integers cimport copy, is_far, put_varint, varint_size
