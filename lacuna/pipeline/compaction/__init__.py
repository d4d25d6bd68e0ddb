"""Compaction at scale: the control plane plans, Spark rewrites extents, and the driver swaps them in (ADR 0015)."""
