"""The data source that Spark loads. Its methods import what they need when they are called."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from lacuna.pipeline.datasource.failing import one_message
from lacuna.pipeline.datasource.options import Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class LacunaDataSource(DataSource):
    """The format "lacuna" of `spark.read`, `readStream`, `write` and `writeStream` (docs/spark.md)."""

    @classmethod
    def name(cls) -> str:
        return "lacuna"

    @one_message
    def schema(self) -> StructType:
        """Returns the columns of Spark's Kafka source or of the plan view."""
        from lacuna.pipeline.datasource.reading_options import read_options
        from lacuna.pipeline.datasource.schema import schema_of

        return schema_of(read_options(Options(self.options)))

    @one_message
    def reader(self, schema: StructType) -> "DataSourceReader":
        """Returns the reader of a batch. Only the columns in `schema`, in any order, are decoded."""
        from lacuna.pipeline.datasource.batch import BatchReader

        return BatchReader(Options(self.options), schema)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802 - Spark's
        """Returns the reader of a stream. It checks options on first use, because Spark hides errors raised here."""
        from lacuna.pipeline.datasource.spark_api import stream_reader
        from lacuna.pipeline.datasource.stream import StreamReader

        return stream_reader(StreamReader(Options(self.options), schema))

    @one_message
    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        from lacuna.pipeline.datasource.writing import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @one_message
    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Returns the writer of a stream, which writes each micro-batch in one transaction."""
        from lacuna.pipeline.datasource.writing import stream_writer

        return stream_writer(self.options, schema, overwrite)
