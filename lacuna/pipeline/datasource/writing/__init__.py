"""Writes DataFrames: `df.write` and `df.writeStream` with the format `lacuna`."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from lacuna.pipeline.control import JobClient
from lacuna.pipeline.datasource.options import OptionError
from lacuna.pipeline.datasource.writing.options import SinkOptions, read_options
from lacuna.pipeline.datasource.writing.rows import check_schema
from lacuna.pipeline.datasource.writing.topics import Targets
from lacuna.pipeline.datasource.writing.writers import BatchWriter, StreamWriter
from lacuna.pipeline.stores import check_store

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Returns the writer for a `df.write`, after checking the bucket and the topic.

    Raises PipelineError for invalid options, columns or topics, and ControlPlaneUnavailable.
    """
    if overwrite:
        raise OptionError(
            'mode("overwrite"): a topic is a log, so records can only be added to it; use '
            'mode("append"), and to replace the records, delete the topic or its records first'
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
    """Returns the writer for a micro-batch of `df.writeStream`. Contacts neither the control plane nor the bucket.

    Raises PipelineError for invalid options or columns.
    """
    found = read_options(options, is_streaming=True)
    check_schema(schema, found.topic)
    return StreamWriter(found)


def _check_target(options: SinkOptions) -> None:
    """Raises an error that would make every task fail, before any task starts."""
    with JobClient(options.location.require_control()) as control:
        check_store(options.location.store, control.cluster_id)
        if options.topic is not None:
            Targets(control.topics(), control.whose).of(options.topic)
