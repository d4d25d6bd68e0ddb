"""The data source `lacuna` of Spark: read and write a cluster's topics as DataFrames."""
