"""`lacuna export`: committed records as Parquet files or an Iceberg table, each exactly once."""
