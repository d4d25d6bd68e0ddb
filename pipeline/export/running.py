"""`lacuna export`, as a function."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from pyspark.sql import SparkSession

from pipeline.control import ControlPlane
from pipeline.errors import PipelineError
from pipeline.export.job import (
    FORMATS,
    ICEBERG,
    Export,
    ExportSettings,
    find_topic,
)
from pipeline.export.layout import PARTITIONINGS
from pipeline.export.report import TopicReport
from pipeline.export.spark_job import NoProgress, Progress
from pipeline.export.tasks import ON_ERROR
from pipeline.location import ClusterLocation
from pipeline.stores import check_store

_COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


def check_settings(settings: ExportSettings) -> None:
    """Raises PipelineError for what can be told from the settings alone."""
    choices = (
        ("--format", settings.format, FORMATS),
        ("--partition-by", settings.layout.partition_by, PARTITIONINGS),
        ("--on-error", settings.on_error, ON_ERROR),
        ("--compression", settings.compression, _COMPRESSIONS),
    )
    for option, value, known in choices:
        if value not in known:
            raise PipelineError(f"{option} {value!r} is not known: there are {', '.join(known)}")
    settings.layout.schema()
    if settings.format == ICEBERG and find_spec("pyiceberg") is None:
        raise PipelineError("an Iceberg export needs pyiceberg: pip install 'lacuna[export]'")


def export_topics(
    spark: SparkSession,
    location: ClusterLocation,
    settings: ExportSettings,
    topics: Sequence[str],
    progress: Progress | None = None,
) -> Iterator[TopicReport]:
    """One run for each topic, one after the other; a report as each is committed.

    Raises PipelineError, ObjectStoreError, ControlPlaneUnavailable; topics that were reported stay exported.
    """
    check_settings(settings)
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        export = Export(
            spark=spark,
            control=control,
            store=location.store,
            settings=settings,
            progress=progress or NoProgress(),
        )
        for name in topics:
            yield _export(export, name)


def check_topics(location: ClusterLocation, topics: Sequence[str]) -> None:
    """Raises PipelineError for a topic that is not there or is named twice, or for the wrong bucket."""
    if len(set(topics)) < len(topics):
        raise PipelineError("a topic is named twice: name each once")
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        for name in topics:
            find_topic(control, name)


def _export(export: Export, topic: str) -> TopicReport:
    if export.settings.format == ICEBERG:
        from pipeline.export.iceberg import export_to_iceberg

        return export_to_iceberg(export, topic)
    from pipeline.export.parquet import export_to_parquet

    return export_to_parquet(export, topic)
