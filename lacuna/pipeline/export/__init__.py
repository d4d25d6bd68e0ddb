"""`lacuna export`: writes committed records, each exactly once, to Parquet files or an Iceberg table."""
