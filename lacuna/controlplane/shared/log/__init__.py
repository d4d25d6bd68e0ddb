"""Reads a partition's log: finds live extents and plans how to read them.

Everything that reads a log uses this package: fetches, lookups by time, explanations, merges, compaction, Spark and the
audit. `live` finds live and dead extents, `fates` determines the fate of each range of offsets, `pieces` describes
extents to read, and `reads` groups pieces into reads and classifies failures.
"""
