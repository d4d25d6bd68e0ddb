"""The functions behind `lacuna export`."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec

from lacuna.controlplane.client import CommandRefused
from lacuna.logstore.objects import ObjectStoreError
from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.errors import JobInterrupted, PipelineError
from lacuna.pipeline.export.job import (
    FORMATS,
    ICEBERG,
    Export,
    ExportSettings,
    find_topic,
    is_pattern,
)
from lacuna.pipeline.export.layout import PARTITIONINGS
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.tasks import ON_ERROR
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.spark_errors import job_errors
from lacuna.pipeline.stores import check_store
from lacuna.pipeline.workers import Progress, Workers

_COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


def check_settings(settings: ExportSettings) -> None:
    """Raises PipelineError for settings that are invalid regardless of the cluster."""
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
    for layout in (settings.layout, *(each for _, each in settings.layouts)):
        layout.schema()
    for name in settings.tables.values():
        if not name or "." in name:
            raise PipelineError(f"--table {name!r}: write TOPIC=NAME, where the name has no dot")
    if settings.format == ICEBERG and find_spec("pyiceberg") is None:
        raise PipelineError("an Iceberg export needs pyiceberg: pip install 'lacuna-log[export]'")


def export_topics(
    workers: Workers,
    location: ClusterLocation,
    settings: ExportSettings,
    topics: Sequence[str],
    progress: Progress | None = None,
) -> Iterator[TopicReport | TopicFailure]:
    """Runs an export of each topic, one after another, and yields a report as each is committed.

    A topic with faulty data, schema or destination yields its failure, and the others are exported. Raises
    PipelineError if nothing can be exported, ControlPlaneUnavailable, JobInterrupted; topics already reported stay
    exported.
    """
    check_settings(settings)
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        check_report(settings, control.cluster_id)
        export = Export(
            workers=workers,
            control=control,
            store=location.store,
            settings=settings,
            progress=progress or Progress(),
        )
        for name in chosen(control, topics):
            try:
                with job_errors():
                    report = _export(export, name)
            except JobInterrupted:
                raise
            except (PipelineError, ObjectStoreError, CommandRefused) as error:
                yield TopicFailure(topic=name, error=error)
            else:
                yield report


def check_report(settings: ExportSettings, cluster_id: str) -> None:
    """Raises PipelineError if the report about damage belongs to another cluster."""
    if settings.damage is not None and settings.damage.cluster_id != cluster_id:
        raise PipelineError(
            f"--skip-damage has a report of the cluster {settings.damage.cluster_id}, but this is "
            f"{cluster_id}: give a report of this one"
        )


def check_topics(location: ClusterLocation, topics: Sequence[str]) -> None:
    """Raises PipelineError for a name or pattern that matches no topic, or if the bucket does not belong to the
    cluster.
    """
    with ControlPlane(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        for wanted in topics:
            if not chosen(control, [wanted]):
                raise PipelineError(
                    f"no topic{control.whose} matches {wanted}: `lacuna topics list` shows the topics that exist"
                )
            if not is_pattern(wanted):
                find_topic(control, wanted)


def chosen(control: ControlPlane, wanted: Sequence[str]) -> list[str]:
    """The topics with these names or shell patterns, each once, in the order of `wanted`.

    A name without a pattern is included even if no topic has it, so that its export fails.
    """
    known = sorted(control.topics())
    found: dict[str, None] = {}
    for each in wanted:
        names = [name for name in known if fnmatchcase(name, each)] if is_pattern(each) else [each]
        found.update(dict.fromkeys(names))
    return list(found)


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
