"""Compaction at scale: the control plane plans, Spark rewrites, the driver swaps.

See docs/adr/0015-compaction-on-spark.md for why it is cut the way it is.
"""
