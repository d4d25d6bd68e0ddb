"""The Spark data source `lacuna`, which reads and writes a cluster's topics as DataFrames."""
