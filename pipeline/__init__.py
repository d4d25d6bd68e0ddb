"""Work on the bucket in bulk, on Spark: compaction, a data source and sink, export, audit."""
