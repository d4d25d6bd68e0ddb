"""`lacuna export`: writes committed records to Parquet files or Iceberg tables, each exactly once."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from time import sleep
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.cli import export_options as options
from lacuna.cli.command_line import argument, option
from lacuna.cli.console import is_for_people, table, tell
from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import print_error
from lacuna.cli.export_options import MEBIBYTE
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, JobKeys, Master, SparkConf, Store
from lacuna.cli.progress import tasks_done
from lacuna.cli.sizes import show_count, show_size
from lacuna.controlplane.client import ControlPlaneUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.report import TopicReport
    from lacuna.pipeline.location import ClusterLocation


def export(
    topics: Annotated[list[str], argument(help="Names of the topics.", show_default=False)],
    to: options.To = "",
    format: options.Format = "parquet",  # noqa: A002 - the option's name
    allow_loss: Annotated[
        bool,
        option(
            "--allow-loss",
            help=("Continue even if retention has deleted records that were not exported yet."),
        ),
    ] = False,
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
    control: Control = None,
    data: Data = None,
    store: Store = None,
    encryption_keys: JobKeys = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Exports committed records to Parquet files or Iceberg tables, each exactly once.

    Each run continues where the last one ended and stops at the last stable offset. Readers of the folder or
    table never see part of a run: if a run dies, the next one repairs it. Aborted records are not even read.
    """
    from lacuna.pipeline.spark_errors import job_errors

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
        location = locate(data, control, store, encryption_keys)
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
    from lacuna.pipeline.errors import StaleMetadataError
    from lacuna.pipeline.export.running import check_destination, check_topics
    from lacuna.pipeline.master import check_master
    from lacuna.pipeline.session import parse_settings, spark_session

    master, conf = spark
    spark_settings = parse_settings(conf)
    check_master(spark_settings.get("spark.master", master))
    check_topics(location, topics)
    check_destination(settings)
    with ExitStack() as stack:
        with tasks_done() as progress:
            progress.stage(f"starting Spark on {master}")
            opened = spark_session("lacuna export", master, spark_settings)
            session = stack.enter_context(opened)
        _export_once(session, location, settings, topics, as_json=as_json)
        while pause:
            sleep(pause)
            try:
                _export_once(session, location, settings, topics, as_json=as_json)
            except (ControlPlaneUnavailable, StaleMetadataError) as error:
                print_error(str(error))  # it may be back after the next pause


def _export_once(
    session: "SparkSession",
    location: "ClusterLocation",
    settings: "ExportSettings",
    topics: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Runs one export of each topic. If one fails, the topics before it are still reported."""
    from lacuna.pipeline.export.running import export_topics

    reports: list[TopicReport] = []
    try:
        with tasks_done() as progress:
            for report in export_topics(session, location, settings, topics, progress):
                reports.append(report)
                if as_json:
                    click.echo(json.dumps(report.as_json()))
    finally:
        if reports and not as_json:
            print_reports(reports)


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
    if report.misfits:
        text += f"; {report.misfits} did not match their schema"
    if report.quarantined:
        text += f" ({report.quarantined} of them are in _quarantine)"
    return text
