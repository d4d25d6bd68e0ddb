"""`lacuna export`: writes committed records to Parquet files or Iceberg tables, each exactly once."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.cli import export_options as options
from lacuna.cli.command_line import argument, option
from lacuna.cli.console import is_for_people, table, tell
from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import print_error
from lacuna.cli.export_options import MEBIBYTE
from lacuna.cli.job_workers import UseSpark, asked_for_spark, choose_workers
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, JobKeys, Master, SparkConf, Store
from lacuna.cli.progress import Shown, tasks_done
from lacuna.cli.sizes import show_count, show_size
from lacuna.controlplane.client import ControlPlaneUnavailable

if TYPE_CHECKING:
    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.report import TopicReport
    from lacuna.pipeline.location import ClusterLocation
    from lacuna.pipeline.workers import Workers


def export(
    context: click.Context,
    topics: Annotated[
        list[str],
        argument(help="Names of the topics, or patterns such as 'logs-*'.", show_default=False),
    ],
    to: options.To = "",
    format: options.Format = "parquet",  # noqa: A002 - the option's name
    allow_loss: Annotated[
        bool,
        option(
            "--allow-loss",
            help=("Continue even if retention has deleted records that were not exported yet."),
        ),
    ] = False,
    skip_damage: Annotated[
        Path | None,
        option(
            "--skip-damage",
            help="Report of `lacuna verify --json`: leave out the damaged records that it lists. Other damage still "
            "makes the export of its topic fail.",
        ),
    ] = None,
    watch: Annotated[
        str | None,
        option("--watch", help="Export repeatedly, with this pause: 10m, 1h. Ctrl-C ends it."),
    ] = None,
    as_json: Annotated[
        bool, option("--json", help="Print the report as JSON, one line for each topic.")
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
    table_names: options.Table = None,
    spark: UseSpark = None,
    control: Control = None,
    data: Data = None,
    store: Store = None,
    encryption_keys: JobKeys = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Exports committed records to Parquet files or Iceberg tables, each exactly once.

    Each run continues where the last one ended and stops at the last stable offset. Readers of the folder or table
    never see part of a run: if a run dies, the next one repairs it. Aborted records are not even read. If the export
    of a topic fails, the others are still exported.
    """
    from lacuna.pipeline.export.damage import ConfirmedDamage
    from lacuna.pipeline.spark_errors import job_errors

    with job_errors():
        layout, layouts = options.make_layouts(
            partition_by,
            options.Given.of("key", key_schema or (), key_message or ()),
            options.Given.of("value", value_schema or (), value_message or ()),
            has_prefix=confluent_prefix,
            is_flat=flatten,
        )
        settings = options.make_settings(
            to=to,
            format=format,
            layout=layout,
            layouts=layouts,
            on_error=on_error,
            allow_loss=allow_loss,
            damage=None if skip_damage is None else ConfirmedDamage.of_report(skip_damage),
            compression=compression,
            file_bytes=file_mib * MEBIBYTE,
            task_bytes=task_mib * MEBIBYTE,
            catalog=options.catalog_settings(catalog_uri, catalog or ()),
            catalog_name=catalog_name,
            namespace=namespace,
            tables=options.pairs(table_names or (), "names no table: write --table TOPIC=NAME"),
        )
        pause = parse_duration(watch, "--watch") if watch else 0.0
        location = locate(data, control, store, encryption_keys)
        spark = asked_for_spark(context, spark, conf)
        with tasks_done() as progress, ExitStack() as stack:
            workers = choose_workers("lacuna export", spark, (master, conf or []), progress, stack)
            job = _Job(location, settings, topics, workers, progress, as_json=as_json)
            is_well = job.run(pause)
    if not is_well:
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Job:
    location: "ClusterLocation"
    settings: "ExportSettings"
    topics: Sequence[str]
    workers: "Workers"
    progress: "Shown"
    as_json: bool

    def run(self, pause: float) -> bool:
        """Exports once, or again and again with a pause in seconds. Returns whether no topic failed."""
        from lacuna.pipeline.export.running import check_destination, check_topics

        check_topics(self.location, self.topics)
        check_destination(self.settings)
        is_well = self._export_once()
        while pause:
            sleep(pause)
            try:
                self._export_once()
            except ControlPlaneUnavailable as error:
                print_error(str(error))  # it may be back after the next pause
        return is_well

    def _export_once(self) -> bool:
        """Runs one export of each topic, and reports each, also if another one fails. Returns whether none failed."""
        from lacuna.pipeline.export.report import TopicFailure
        from lacuna.pipeline.export.running import export_topics

        reports: list[TopicReport] = []
        failures: list[TopicFailure] = []
        outcomes = export_topics(
            self.workers, self.location, self.settings, self.topics, self.progress
        )
        try:
            for found in outcomes:
                if self.as_json:
                    click.echo(json.dumps(found.as_json()))
                if isinstance(found, TopicFailure):
                    failures.append(found)
                else:
                    reports.append(found)
        finally:
            self.progress.end()
            if reports and not self.as_json:
                print_reports(reports)
            for failure in failures:
                print_error(f"{failure.topic} was not exported: {failure.error}")
        return not failures


def print_reports(reports: Sequence["TopicReport"]) -> None:
    """Prints a row for each partition with new records, and a sentence for each topic."""
    table(
        ("topic", "partition", "from", "to"),
        (
            (report.topic, partition, first, end)
            for report in reports
            for partition, (first, end) in sorted(report.offsets.items())
        ),
    )
    for report in reports:
        tell(_sentence(report) if is_for_people() else f"# {_sentence(report)}")


def _sentence(report: "TopicReport") -> str:
    if report.run is None:
        return f"{report.topic}: nothing new for {report.target}"
    text = (
        f"{report.topic}: {show_count(report.records, 'record')} in {show_count(report.files, 'file')}, "
        f"{show_size(report.bytes)}, in {report.seconds:.1f} s, to {report.target}"
    )
    if report.skipped:
        count = sum(each.end_offset - each.first_offset for each in report.skipped)
        text += f"; {show_count(count, 'offset')} could not be read and were left out"
    if report.misfits:
        text += f"; {report.misfits} did not match their schema"
    if report.quarantined:
        text += f" ({report.quarantined} of them are in _quarantine)"
    return text
