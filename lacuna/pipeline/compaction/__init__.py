"""Compaction at scale: the control plane plans, Spark rewrites extents, and the driver swaps them in.

docs/adr/0015-compaction-on-spark.md gives the reasons for this division.
"""
