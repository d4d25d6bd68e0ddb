"""Reads a partition's log: finds its live extents, and plans their reads.

All code that reads a log uses this folder: fetches, lookups by time, explanations, merges, compaction, Spark and the
audit.

`live` finds live and dead extents, and `fates` the fate of each range of offsets. `pieces` describes extents to read.
`reads` groups pieces into reads, and classifies failures.
"""
