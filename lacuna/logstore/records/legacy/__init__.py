"""Message sets of magic 0 and 1, the formats that preceded record batches (002_, 003_; S22 to S24).

Modules: `layout`; `lz4_header` and `codecs` (compression for old clients); `reading` (with or without unwrapping);
`writing`; `validation`; `conversion` to record batches and back, since the log holds only magic 2. `kernel` does the
conversion, and if it rejects the input, `by_objects` finds the error.
"""

from __future__ import annotations

from lacuna.logstore.records.legacy.conversion import from_batches, to_batch

__all__ = ["from_batches", "to_batch"]
