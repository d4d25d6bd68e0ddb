"""`lacuna verify`: checks that every byte in the bucket is what was written, and that it agrees with the metadata."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.base.errors import UserError
from lacuna.cli.command_line import option
from lacuna.cli.errors import INTERRUPTED, MENDABLE, print_error
from lacuna.cli.job_workers import UseSpark, asked_for_spark
from lacuna.cli.location import locate
from lacuna.cli.options import (
    DEFAULT_MASTER,
    Control,
    Data,
    JobKeys,
    Master,
    SparkConf,
    Store,
)
from lacuna.cli.report_files import check_report_file
from lacuna.pipeline.errors import JobInterrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lacuna.pipeline.audit import AuditOptions, Report
    from lacuna.pipeline.location import ClusterLocation

FOUND = 1
NOT_DONE = 2

_SOURCES = ("control", "bucket")
#: One process reads this much in the time that Spark needs to start and to read it.
_SPARK_FROM_BYTES = 1 << 30


def verify(
    context: click.Context,
    topic: Annotated[
        list[str] | None,
        option(
            "--topic",
            "-t",
            help="Audit only this topic, and skip objects of no topic. May be repeated.",
        ),
    ] = None,
    metadata_only: Annotated[
        bool,
        option(
            "--metadata-only",
            help=("Check only metadata and the listing of the bucket; read no objects."),
        ),
    ] = False,
    checksums_only: Annotated[
        bool,
        option(
            "--checksums-only", help="Check all checksums, but do not decompress and parse records."
        ),
    ] = False,
    keys: Annotated[
        bool,
        option(
            "--keys",
            help=(
                "Count the distinct keys of every partition, which reads all records a second time."
            ),
        ),
    ] = False,
    metadata: Annotated[
        str,
        option(
            "--metadata",
            help=(
                "Source of the metadata: control (the control plane) or bucket (its newest metadata "
                "snapshot)."
            ),
        ),
    ] = _SOURCES[0],
    json: Annotated[
        Path | None,
        option(
            "--json",
            alone="-",
            metavar="[FILE]",
            help="Print the report as JSON, or write it to this file.",
        ),
    ] = None,
    html: Annotated[
        Path | None, option("--html", help="Write the report as an HTML page to this file.")
    ] = None,
    spark: UseSpark = None,
    control: Control = None,
    data: Data = None,
    store: Store = None,
    encryption_keys: JobKeys = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Audits the bucket: reads all of it and compares it with the control plane.

    Checks every checksum, batch, offset and outcome, finds objects that nothing refers to, and reports damage with the
    affected offsets. Changes nothing; you can run it while the cluster is in use.

    Exit code: 0 no problem, 1 a problem, 2 the audit could not run, 130 Ctrl-C.
    """
    with _failures():
        from lacuna.cli.verification import print_report, write_html, write_json
        from lacuna.pipeline.audit import AuditOptions

        if metadata not in _SOURCES:
            raise UserError(f"--metadata {metadata!r}: choose control or bucket")
        if metadata_only and (keys or checksums_only):
            raise UserError(
                "--metadata-only reads no objects: leave --keys and --checksums-only out"
            )
        if keys and spark is False:
            raise UserError("only Spark can count keys: leave --keys or --no-spark out")
        spark = asked_for_spark(context, spark, conf)
        check_report_file("--json", json)
        check_report_file("--html", html)
        location = locate(
            data, control, store, encryption_keys, needs_control=metadata == _SOURCES[0]
        )
        options = AuditOptions(
            topics=tuple(topic or ()),
            metadata=metadata,
            reads_objects=not metadata_only,
            reads_records=not checksums_only,
            counts_keys=keys,
            spark_from_bytes=_SPARK_FROM_BYTES if spark is None else 0,
        )
        runs_on_spark = _has_spark() if spark is None and not keys else spark is not False
        report = _run(location, options, master if runs_on_spark else None, conf or [])
        if html is not None:
            write_html(report, html)
        if json is not None:
            write_json(report, json)
        if json is None or str(json) != "-":
            print_report(report)
    if not report.is_sound:
        raise click.exceptions.Exit(FOUND)


@contextmanager
def _failures() -> Iterator[None]:
    """Ends the command with exit code 2, or 130 at Ctrl-C, if the block fails: a failed audit is not a finding."""
    try:
        yield
    except (KeyboardInterrupt, JobInterrupted) as error:
        print_error(
            "stopped before the end, so the audit has no result; nothing was changed; run it again"
        )
        raise click.exceptions.Exit(INTERRUPTED) from error
    except MENDABLE as error:
        print_error(str(error))
        raise click.exceptions.Exit(NOT_DONE) from error
    except Exception as error:
        # A bug of ours, shown with its traceback; the usual exit code 1 would mean that the bucket is damaged.
        sys.excepthook(type(error), error, error.__traceback__)
        raise click.exceptions.Exit(NOT_DONE) from error


def _has_spark() -> bool:
    return find_spec("pyspark") is not None


def _run(
    location: "ClusterLocation", options: "AuditOptions", master: str | None, conf: list[str]
) -> "Report":
    """Runs the audit, without Spark if `master` is None."""
    from lacuna.cli.progress import bytes_done
    from lacuna.pipeline.audit import audit
    from lacuna.pipeline.session import parse_settings, spark_session

    with bytes_done(has_lines=False) as progress:
        if master is None:
            return audit(location, options, None, progress)
        settings = parse_settings(conf)

        def open_spark() -> "AbstractContextManager[SparkSession]":
            progress.stage(f"starting Spark on {master}")
            return spark_session("lacuna verify", master, settings)

        return audit(location, options, open_spark, progress)
