"""The writing half of the data source: `df.write` and `df.writeStream` with the format `lacuna`."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from pipeline.control import ControlPlane
from pipeline.datasource.options import OptionError
from pipeline.datasource.writing.options import SinkOptions, read_options
from pipeline.datasource.writing.rows import check_schema
from pipeline.datasource.writing.topics import Targets
from pipeline.datasource.writing.writers import BatchWriter, StreamWriter
from pipeline.stores import check_store

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of one `df.write`.

    Raises PipelineError for options, columns or a topic that do not fit, ControlPlaneUnavailable.
    """
    if overwrite:
        raise OptionError(
            'mode("overwrite"): a topic is a log, records are only ever added to it; say mode("append"), and '
            "delete the topic or its records first where they are to go"
        )
    found = read_options(options, is_streaming=False)
    check_schema(schema, found.topic)
    _check_target(found)
    return BatchWriter(found)


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: ARG001 - complete mode: every result is added, as by Spark's Kafka sink
) -> StreamWriter:
    """The writer of one micro-batch of `df.writeStream`; it asks nobody before there are rows.

    Raises PipelineError for options and columns that do not fit.
    """
    found = read_options(options, is_streaming=True)
    check_schema(schema, found.topic)
    return StreamWriter(found)


def _check_target(options: SinkOptions) -> None:
    """What every task would fail with, said once, before there are tasks."""
    with ControlPlane(options.location.require_control()) as control:
        check_store(options.location.store, control.cluster_id)
        if options.topic is not None:
            Targets(control.topics()).of(options.topic)
