"""Compaction at scale: the control plane plans, Spark rewrites, the driver swaps.

docs/adr/0015-compaction-on-spark.md gives the reasons for this division.
"""
