"""The data source as Spark sees it; what it needs is imported where it is needed."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pipeline.datasource.failing import one_message
from pipeline.datasource.options import Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class LacunaDataSource(DataSource):
    """`spark.read.format("lacuna")` and its three sisters. docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "lacuna"

    @one_message
    def schema(self) -> StructType:
        """The columns of Spark's Kafka source, or those of the plan view."""
        from pipeline.datasource.reading_options import read_options
        from pipeline.datasource.schema import schema_of

        return schema_of(read_options(Options(self.options)))

    @one_message
    def reader(self, schema: StructType) -> "DataSourceReader":
        """Of a batch. `schema` may name some of the columns, in any order: only those are decoded."""
        from pipeline.datasource.batch import BatchReader

        return BatchReader(Options(self.options), schema)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802 - Spark's
        """Of a stream; checks its options at its first call, as Spark hides an error of this one."""
        from pipeline.datasource.stream import StreamReader

        return StreamReader(Options(self.options), schema)

    @one_message
    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """Of a batch, in one transaction."""
        from pipeline.datasource.writing import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @one_message
    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Of a stream, a transaction an epoch."""
        from pipeline.datasource.writing import stream_writer

        return stream_writer(self.options, schema, overwrite)
