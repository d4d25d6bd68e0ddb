"""Message sets of magic 0 and 1, the formats that preceded record batches (002_, 003_; S22 to S24).

Modules: `layout`, `errors`, `lz4_header` and `codecs` (compression for old clients), `reading` (shallow and deep),
`writing`, `validation`, and `conversion` to record batches and back, since the log holds only magic 2. `kernel` does
the conversion. If it rejects its input, `by_objects` finds the error.
"""

from __future__ import annotations

from lacuna.logstore.records.legacy.conversion import from_batches, to_batch

__all__ = ["from_batches", "to_batch"]
