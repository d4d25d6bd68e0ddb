"""`lacuna export`: writes committed records to Parquet files or an Iceberg table, each exactly once."""
