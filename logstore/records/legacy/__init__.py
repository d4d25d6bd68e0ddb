"""Message sets of magic 0 and 1, the formats before record batches (002_, 003_; S22 to S24).

Modules: `layout`, `errors`, `lz4_header` and `codecs` (compression as old clients know it), `reading`
(shallow and deep), `writing`, the three steps of a broker that keeps sets (`validation`,
`correction`, `rebuilding`), and `conversion` to record batches and back, which is what the agent needs:
the log holds magic 2 only.
"""

from __future__ import annotations

from logstore.records.legacy.conversion import from_batches, to_batch
from logstore.records.legacy.errors import CorruptMessageError, EmptyMessageSetError

__all__ = ["CorruptMessageError", "EmptyMessageSetError", "from_batches", "to_batch"]
