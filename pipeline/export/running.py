"""`lacuna export` as functions."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from pyspark.sql import SparkSession

from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.job import (
    FORMATS,
    ICEBERG,
    Export,
    ExportSettings,
    find_topic,
)
from lacuna.pipeline.export.layout import PARTITIONINGS
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.report import TopicReport
from lacuna.pipeline.export.tasks import ON_ERROR
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.progress import Progress
from lacuna.pipeline.stores import check_store

_COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


def check_settings(settings: ExportSettings) -> None:
    """Raises PipelineError for settings that are invalid by themselves."""
    choices = (
        ("--format", settings.format, FORMATS),
        ("--partition-by", settings.layout.partition_by, PARTITIONINGS),
        ("--on-error", settings.on_error, ON_ERROR),
        ("--compression", settings.compression, _COMPRESSIONS),
    )
    for option, value, known in choices:
        if value not in known:
            raise PipelineError(
                f"{option} {value!r} is not known: choose one of {', '.join(known)}"
            )
    settings.layout.schema()
    if settings.format == ICEBERG and find_spec("pyiceberg") is None:
        raise PipelineError("an Iceberg export needs pyiceberg: pip install 'lacuna-log[export]'")


def export_topics(
    spark: SparkSession,
    location: ClusterLocation,
    settings: ExportSettings,
    topics: Sequence[str],
    progress: Progress | None = None,
) -> Iterator[TopicReport]:
    """Runs an export of each topic, one after another, and yields a report as each is committed.

    Raises PipelineError, ObjectStoreError, ControlPlaneUnavailable; topics already reported stay exported.
    """
    check_settings(settings)
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        export = Export(
            spark=spark,
            control=control,
            store=location.store,
            settings=settings,
            progress=progress or Progress(),
        )
        for name in topics:
            yield _export(export, name)


def check_topics(location: ClusterLocation, topics: Sequence[str]) -> None:
    """Raises PipelineError for a topic that does not exist or is named twice, or if the bucket is not the cluster's."""
    if len(set(topics)) < len(topics):
        raise PipelineError("a topic is named twice: name each once")
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        for name in topics:
            find_topic(control, name)


def check_destination(settings: ExportSettings) -> None:
    """Raises PipelineError if the destination cannot be written to, or if its catalog does not answer."""
    if settings.format != ICEBERG:
        open_destination(settings.to).check()
        return
    from lacuna.pipeline.export.tables import catalog_properties, open_catalog

    open_catalog(settings.catalog_name, catalog_properties(settings.to, settings.catalog))


def _export(export: Export, topic: str) -> TopicReport:
    if export.settings.format == ICEBERG:
        from lacuna.pipeline.export.iceberg import export_to_iceberg

        return export_to_iceberg(export, topic)
    from lacuna.pipeline.export.parquet import export_to_parquet

    return export_to_parquet(export, topic)
