"""The Spark data source `lacuna`, which reads and writes topics as DataFrames."""
