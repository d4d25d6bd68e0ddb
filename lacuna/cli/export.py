"""`lacuna export`: committed records as Parquet files or Iceberg tables, each exactly once."""

import json
from collections.abc import Sequence
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from controlplane.client.errors import ControlPlaneUnavailable
from lacuna.cli import export_options as options
from lacuna.cli.console import err, is_for_people, out, table
from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import print_error
from lacuna.cli.export_options import MEBIBYTE
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, Master, SparkConf, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.export.job import ExportSettings
    from pipeline.export.report import TopicReport
    from pipeline.location import ClusterLocation


def export(
    topics: Annotated[list[str], typer.Argument(help="The topics' names.", show_default=False)],
    to: options.To = "",
    format: options.Format = "parquet",  # noqa: A002 - the option's name
    allow_loss: Annotated[
        bool,
        typer.Option("--allow-loss", help="Go on where retention has taken what was not exported."),
    ] = False,
    watch: Annotated[
        str | None,
        typer.Option("--watch", help="Export again and again, so often: 10m, 1h. Ctrl-C ends it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, a line for each topic.")
    ] = False,
    partition_by: options.PartitionBy = "none",
    file_mib: options.FileMebibytes = 128,
    task_mib: options.TaskMebibytes = 64,
    compression: options.Compression = "zstd",
    value_schema: options.ValueSchema = None,
    value_message: options.ValueMessage = None,
    key_schema: options.KeySchema = None,
    key_message: options.KeyMessage = None,
    confluent_prefix: options.ConfluentPrefix = False,
    flatten: options.Flatten = False,
    on_error: options.OnError = "fail",
    catalog_uri: options.CatalogUri = None,
    catalog: options.CatalogProperties = None,
    catalog_name: options.CatalogName = "lacuna",
    namespace: options.Namespace = "lacuna",
    control: Control = None,
    data: Data = None,
    store: Store = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Writes committed records to Parquet files or Iceberg tables, each exactly once.

    Each run goes on where the last one ended, up to the last stable offset. Readers never see part of a run in a
    folder or a table, whenever it dies: the next one mends it. Aborted records are not even read.
    """
    from pipeline.spark_errors import job_errors

    with job_errors():
        layout = options.make_layout(
            partition_by,
            (key_schema, key_message),
            (value_schema, value_message),
            has_prefix=confluent_prefix,
            is_flat=flatten,
        )
        settings = options.make_settings(
            to=to,
            format=format,
            layout=layout,
            on_error=on_error,
            allow_loss=allow_loss,
            compression=compression,
            file_bytes=file_mib * MEBIBYTE,
            task_bytes=task_mib * MEBIBYTE,
            catalog=options.catalog_settings(catalog_uri, catalog or ()),
            catalog_name=catalog_name,
            namespace=namespace,
        )
        pause = parse_duration(watch, "--watch") if watch else 0.0
        location = locate(data, control, store)
        _run(location, settings, topics, (master, conf or []), pause, as_json=as_json)


def _run(
    location: "ClusterLocation",
    settings: "ExportSettings",
    topics: Sequence[str],
    spark: tuple[str, Sequence[str]],
    pause: float,
    *,
    as_json: bool,
) -> None:
    from pipeline.errors import StaleMetadataError
    from pipeline.export.running import check_topics
    from pipeline.session import parse_settings, spark_session

    check_topics(location, topics)  # before Spark's seconds
    master, conf = spark
    with spark_session("lacuna export", master, parse_settings(conf)) as session:
        _export_once(session, location, settings, topics, as_json=as_json)
        while pause:
            sleep(pause)
            try:
                _export_once(session, location, settings, topics, as_json=as_json)
            except (ControlPlaneUnavailable, StaleMetadataError) as error:
                print_error(str(error))  # it may be back behind the next pause


def _export_once(
    session: "SparkSession",
    location: "ClusterLocation",
    settings: "ExportSettings",
    topics: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """One run for each topic; those before one that fails are reported, too."""
    from pipeline.export.running import export_topics

    reports: list[TopicReport] = []
    try:
        with ProgressBar() as progress:
            for report in export_topics(session, location, settings, topics, progress):
                reports.append(report)
                if as_json:
                    typer.echo(json.dumps(report.as_json()))
    finally:
        if reports and not as_json:
            print_reports(reports)


def print_reports(reports: Sequence["TopicReport"]) -> None:
    """A line for each partition that moved; a sentence for each topic."""
    table(
        ("topic", "partition", "from", "to"),
        (
            (report.topic, partition, first, end)
            for report in reports
            for partition, (first, end) in sorted(report.offsets.items())
        ),
    )
    if not is_for_people():
        return
    for report in reports:
        out.print(_sentence(report), markup=False, soft_wrap=True)


def _sentence(report: "TopicReport") -> str:
    if report.run is None:
        return f"{report.topic}: nothing new"
    text = (
        f"{report.topic}: {report.records} records in {report.files} files, {report.bytes} bytes, in "
        f"{report.seconds:.1f} s, to {report.target}"
    )
    if report.misfits:
        text += f"; {report.misfits} did not fit their schema"
    if report.quarantined:
        text += f" ({report.quarantined} are in _quarantine)"
    return text


class ProgressBar:
    """A bar for each topic's tasks, on a terminal only."""

    def __init__(self) -> None:
        columns: Any = (TextColumn("{task.description}"), BarColumn())
        self._bars = Bars(
            *columns, MofNCompleteColumn(), TimeElapsedColumn(), console=err, transient=True
        )
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def begin(self, topic: str, tasks: int) -> None:
        """A topic's tasks start."""
        self._bar = self._bars.add_task(topic, total=tasks)

    def done(self, tasks: int) -> None:
        """So many of them have ended."""
        if self._bar is not None:
            self._bars.update(self._bar, completed=tasks)
