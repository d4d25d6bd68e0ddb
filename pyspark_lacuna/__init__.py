"""Found by Spark by its name: `spark.read.format("lacuna")` works without registering anything."""

from pipeline.datasource.source import LacunaDataSource as DefaultSource

__all__ = ["DefaultSource"]
