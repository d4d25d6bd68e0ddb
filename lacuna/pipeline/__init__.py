"""Bulk work on the bucket with Spark: compaction, a data source and sink, export, and audit."""
