"""Reading a partition's log: which of its extents are live, and how they are read.

Everything that reads a log uses this folder: fetches, lookups by time, explanations, merges, compaction, Spark and
the audit.

`live` tells which extents are live and which are dead, and `fates` what becomes of each range of offsets. `pieces`
describes extents as something to read. `reads` plans which pieces are read together, and says why a read failed.
"""
