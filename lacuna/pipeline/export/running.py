from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from lacuna.controlplane.client import CommandRefused
from lacuna.logstore.objects import ObjectStoreError
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import JobInterrupted, PipelineError
from lacuna.pipeline.export.cuts import CUTS, CompleteCut, CutLog, CutReport, RunCut, plan_cut
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
from lacuna.pipeline.export.parquet import ParquetRun, ParquetTarget, open_parquet
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.tasks import ON_ERROR
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.spark_errors import job_errors
from lacuna.pipeline.stores import check_store
from lacuna.pipeline.workers import Progress, Workers

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lacuna.pipeline.export.iceberg import IcebergRun, IcebergTarget

Outcome: TypeAlias = TopicReport | TopicFailure
Result = TypeVar("Result")

_COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


def check_settings(settings: ExportSettings) -> None:
    """Raises PipelineError for settings that are invalid in any cluster."""
    choices = (
        ("--format", settings.format, FORMATS),
        ("--on-error", settings.on_error, ON_ERROR),
        ("--compression", settings.compression, _COMPRESSIONS),
    )
    for option, value, known in choices:
        if value not in known:
            raise PipelineError(
                f"{option} {value!r} is not known: choose one of {', '.join(known)}"
            )
    partition_by = settings.layout.partition_by
    if settings.format != ICEBERG and partition_by not in PARTITIONINGS:
        raise PipelineError(
            f"--partition-by {partition_by!r}: choose one of {', '.join(PARTITIONINGS)}; column transforms "
            "require --format iceberg"
        )
    _check_layouts(settings)
    for name in settings.tables.values():
        if not name or "." in name:
            raise PipelineError(f"--table {name!r}: specify TOPIC=NAME, with no dot in the name")
    if settings.format == ICEBERG:
        if find_spec("pyiceberg") is None:
            raise PipelineError(
                "an Iceberg export needs pyiceberg: pip install 'lacuna-log[export]'"
            )
        from lacuna.pipeline.export.partitioning import terms_of

        terms_of(partition_by)


def _check_layouts(settings: ExportSettings) -> None:
    if settings.upserts and settings.format != ICEBERG:
        raise PipelineError("--upsert replaces rows of tables: add --format iceberg")
    for layout in (settings.layout, *(each for _, each in settings.layouts)):
        layout.schema()
        if settings.upserts:
            layout.key_column()


def export_topics(
    workers: Workers,
    location: ClusterLocation,
    settings: ExportSettings,
    topics: Sequence[str],
    progress: Progress | None = None,
) -> list[Outcome]:
    """Exports the topics up to one cut, and returns a report for each of them.

    All files are written before the first topic is published. A topic with faulty data, schema or destination gets a
    failure instead of a report, and the others are exported. Raises PipelineError if nothing can be exported,
    ControlPlaneUnavailable, and JobInterrupted.
    """
    check_settings(settings)
    with JobClient(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        check_report(settings, control.cluster_id)
        export = Export(
            workers=workers,
            control=control,
            store=location.store,
            settings=settings,
            progress=progress or Progress(),
        )
        return run_export(export, chosen(control, topics))


def run_export(export: Export, names: Sequence[str]) -> list[Outcome]:
    """Exports these topics up to one cut, and returns a report or failure for each of them.

    A cut of several topics is recorded once all of them have reached it. Raises the same errors as `export_topics`.
    """
    cut = plan_cut(export.control, names)
    outcomes: dict[str, Outcome] = {}
    runs: dict[str, ParquetRun | IcebergRun] = {}
    with ExitStack() as held:
        targets = {name: _attempt(name, partial(_open, export, cut, name, held)) for name in names}
        for name, target in targets.items():
            prepared = (
                target
                if isinstance(target, TopicFailure)
                else _attempt(name, partial(target.prepare, cut))
            )
            if isinstance(prepared, TopicReport | TopicFailure):
                outcomes[name] = prepared
            else:
                runs[name] = prepared
        outcomes |= _publish(runs)
        return _conclude(export, cut, names, outcomes)


def _conclude(
    export: Export, cut: RunCut, names: Sequence[str], outcomes: Mapping[str, Outcome]
) -> list[Outcome]:
    """Records the cut if all topics have reached it, and maintains tables. Returns the outcomes and new failures."""
    reports = {name: each for name, each in outcomes.items() if isinstance(each, TopicReport)}
    is_complete = all(
        name in reports and cut.is_reached(name, reports[name].positions) for name in names
    )
    told = CutReport(
        id=cut.id, at_ms=cut.at_ms, topics=len(names), is_complete=is_complete, holders=cut.holders
    )
    found: list[Outcome] = [
        replace(each, cut=told) if isinstance(each, TopicReport) else each
        for each in (outcomes[name] for name in names)
    ]
    if is_complete and len(reports) > 1:
        noted = _attempt(CUTS, partial(_note, export, told, reports))
        if isinstance(noted, TopicFailure):
            found.append(noted)
    settings = export.settings
    if settings.format == ICEBERG and (settings.merges or settings.expire_ms is not None):
        found += _maintain(settings, list(reports))
    return found


def _maintain(settings: ExportSettings, topics: Sequence[str]) -> list[TopicFailure]:
    from lacuna.pipeline.export.maintaining import Maintenance
    from lacuna.pipeline.export.tables import TopicTable
    from lacuna.pipeline.export.together import CutsTable

    opened = _attempt(CUTS, partial(CutsTable.with_newest, settings))
    if isinstance(opened, TopicFailure):
        return [opened]
    cuts, newest = opened
    tables = {topic: settings.table_of(topic) for topic in topics}
    if newest:
        tables[CUTS] = (settings.namespace, CUTS)
    done = [
        _attempt(
            topic,
            Maintenance(
                into=TopicTable(cuts.catalog, identifier),
                merges=settings.merges and topic in topics,
                expire_ms=settings.expire_ms,
                file_bytes=settings.file_bytes,
                compression=settings.compression,
                sort_by=settings.layout.sort_by,
                kept=frozenset(state for name, state in newest.items() if name == identifier[1]),
            ).run,
        )
        for topic, identifier in tables.items()
    ]
    return [each for each in done if isinstance(each, TopicFailure)]


def _attempt(topic: str, work: Callable[[], Result]) -> Result | TopicFailure:
    """Calls `work` for one topic. An error that affects only this topic is returned as a failure."""
    try:
        with job_errors():
            return work()
    except JobInterrupted:
        raise
    except (PipelineError, ObjectStoreError, CommandRefused) as error:
        return TopicFailure(topic=topic, error=error)


def _open(
    export: Export, cut: RunCut, name: str, held: ExitStack
) -> "ParquetTarget | IcebergTarget":
    """Opens the destination of a topic. All destinations are locked before anything is written.

    Otherwise, two exports of the same topics could each lock only some of them, run after run.
    """
    topic = cut.topics.get(name) or find_topic(export.control, name)
    # After the cut, so that the newest schema is no older than the schemas of its records.
    export = replace(export, settings=export.settings.with_newest_schemas(name))
    with ExitStack() as own:
        target: ParquetTarget | IcebergTarget
        if export.settings.format == ICEBERG:
            from lacuna.pipeline.export.iceberg import open_iceberg

            target = open_iceberg(export, topic, own)
        else:
            target = open_parquet(export, topic, own)
        held.push(own.pop_all())
        return target


def _publish(runs: "Mapping[str, ParquetRun | IcebergRun]") -> dict[str, Outcome]:
    """Makes the prepared runs visible to readers, all at once if the catalog supports that."""
    tables = {name: run for name, run in runs.items() if not isinstance(run, ParquetRun)}
    outcomes: dict[str, Outcome] = {
        name: _attempt(name, run.publish)
        for name, run in runs.items()
        if isinstance(run, ParquetRun)
    }
    if tables:
        from lacuna.pipeline.export.together import commit_all

        committed = commit_all({name: run.change for name, run in tables.items()})
        for name, run in tables.items():
            outcomes[name] = _attempt(name, partial(_finish, run, committed[name]))
    return outcomes


def _finish(run: "IcebergRun", committed: "Table | PipelineError") -> TopicReport:
    if isinstance(committed, PipelineError):
        raise committed
    return run.finish(committed)


def _note(export: Export, cut: CutReport, reports: Mapping[str, TopicReport]) -> None:
    states = {name: each.state for name, each in reports.items() if each.state is not None}
    complete = CompleteCut(id=cut.id, at_ms=cut.at_ms, states=states)
    if export.settings.format == ICEBERG:
        from lacuna.pipeline.export.together import CutsTable

        CutsTable.of(export.settings).note(complete)
    else:
        CutLog(open_destination(export.settings.to)).note(complete)


def complete_cuts(settings: ExportSettings, most: int) -> list[tuple[CompleteCut, Collection[str]]]:
    """Returns the newest complete cuts, oldest first, each with the names whose state can still be read.

    Raises DestinationError, PipelineError.
    """
    if settings.format == ICEBERG:
        from lacuna.pipeline.export.together import CutsTable

        cuts = CutsTable.of(settings)
        return [(cut, cuts.readable(cut)) for cut in cuts.complete()[-most:]]
    complete = CutLog(open_destination(settings.to)).complete()
    return [(cut, cut.states.keys()) for cut in complete[-most:]]


def check_report(settings: ExportSettings, cluster_id: str) -> None:
    """Raises PipelineError if the damage report belongs to a different cluster."""
    if settings.damage is not None and settings.damage.cluster_id != cluster_id:
        raise PipelineError(
            f"the --skip-damage report is about cluster {settings.damage.cluster_id}, but this is cluster "
            f"{cluster_id}: specify a report about this one"
        )


def check_topics(location: ClusterLocation, topics: Sequence[str]) -> None:
    """Raises PipelineError if a name or pattern matches no topic, or if the bucket belongs to a different cluster."""
    with JobClient(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        for wanted in topics:
            if not chosen(control, [wanted]):
                raise PipelineError(
                    f"no topic{control.whose} matches {wanted}: `lacuna topics list` shows the topics that exist"
                )
            if not is_pattern(wanted):
                find_topic(control, wanted)


def chosen(control: JobClient, wanted: Sequence[str]) -> list[str]:
    """Returns the topics that match these names or shell patterns, each once, in the order of `wanted`.

    A plain name is included even if there is no such topic, so that its export fails.
    """
    known = sorted(control.topics())
    found: dict[str, None] = {}
    for each in wanted:
        names = [name for name in known if fnmatchcase(name, each)] if is_pattern(each) else [each]
        found.update(dict.fromkeys(names))
    return list(found)


def check_destination(settings: ExportSettings) -> None:
    """Raises PipelineError if the destination is not writable, or if its catalog does not answer."""
    if settings.format != ICEBERG:
        open_destination(settings.to).check()
        return
    from lacuna.pipeline.export.tables import catalog_of

    catalog_of(settings)
