"""`lacuna verify`: checks that every byte in the bucket is as it was written and agrees with the metadata."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.base.errors import UserError
from lacuna.cli.command_line import option
from lacuna.cli.errors import INTERRUPTED, MENDABLE, print_error
from lacuna.cli.job_workers import SparkOptions, check_report_file
from lacuna.cli.location import locate
from lacuna.cli.options import JobPlace
from lacuna.pipeline.errors import JobInterrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lacuna.pipeline.audit import AuditOptions, Report
    from lacuna.pipeline.location import ClusterLocation

FOUND = 1
NOT_DONE = 2

_SOURCES = ("control", "bucket")
#: A single process reads this much in the time that Spark needs to start and read the same amount.
_SPARK_FROM_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    topic: Annotated[
        list[str] | None,
        option(
            "--topic",
            "-t",
            help="Audit only this topic, and skip objects that belong to no topic. May be repeated.",
        ),
    ] = None
    metadata_only: Annotated[
        bool, option(help=("Check only metadata and the listing of the bucket; read no objects."))
    ] = False
    checksums_only: Annotated[
        bool, option(help="Check all checksums, but do not decompress or parse records.")
    ] = False
    keys: Annotated[
        bool,
        option(
            help=(
                "Count the distinct keys of every partition. This reads all records a second time."
            )
        ),
    ] = False
    metadata: Annotated[
        str,
        option(
            help=(
                "Source of the metadata: control (the control plane) or bucket (its newest metadata "
                "snapshot)."
            )
        ),
    ] = _SOURCES[0]
    json: Annotated[
        Path | None,
        option(
            alone="-", metavar="[FILE]", help="Print the report as JSON, or write it to this file."
        ),
    ] = None
    html: Annotated[Path | None, option(help="Write the report as an HTML page to this file.")] = (
        None
    )
    place: JobPlace
    spark: SparkOptions

    def audit(self) -> "AuditOptions":
        """Return the audit's options. Raises UserError if options conflict."""
        from lacuna.pipeline.audit import AuditOptions

        if self.metadata not in _SOURCES:
            raise UserError(f"--metadata {self.metadata!r}: choose control or bucket")
        if self.metadata_only and (self.keys or self.checksums_only):
            raise UserError("--metadata-only reads no objects: omit --keys and --checksums-only")
        if self.keys and self.spark.spark is False:
            raise UserError("--keys needs Spark: omit --keys or --no-spark")
        return AuditOptions(
            topics=tuple(self.topic or ()),
            metadata=self.metadata,
            reads_objects=not self.metadata_only,
            reads_records=not self.checksums_only,
            counts_keys=self.keys,
            spark_from_bytes=_SPARK_FROM_BYTES if self.spark.choice() is None else 0,
        )

    def runs_on_spark(self) -> bool:
        choice = self.spark.choice()
        return (
            find_spec("pyspark") is not None
            if choice is None and not self.keys
            else choice is not False
        )


def verify(given: Given) -> None:
    """Audits the bucket: reads all of it and compares it with the control plane.

    Checks every checksum, batch, offset and outcome, finds objects that nothing refers to, and reports damage with the
    affected offsets. Changes nothing; you can run it while the cluster is in use.

    Exit code: 0 if there is no problem, 1 if there is one, 2 if the audit could not run, 130 after Ctrl-C.
    """
    with _failures():
        options = given.audit()
        check_report_file("--json", given.json)
        check_report_file("--html", given.html)
        location = locate(given.place, needs_control=given.metadata == _SOURCES[0])
        report = _run(location, options, given.spark if given.runs_on_spark() else None)
        _show(report, given)
    if not report.is_sound:
        raise click.exceptions.Exit(FOUND)


def _show(report: "Report", given: Given) -> None:
    """Print the report, or write it to the files given as options."""
    from lacuna.cli.verification import print_report, write_html, write_json

    if given.html is not None:
        write_html(report, given.html)
    if given.json is not None:
        write_json(report, given.json)
    if given.json is None or str(given.json) != "-":
        print_report(report)


@contextmanager
def _failures() -> Iterator[None]:
    """End the command with exit code 2 if the block fails, since a failed audit is not a finding, or 130 on Ctrl-C."""
    try:
        yield
    except (KeyboardInterrupt, JobInterrupted) as error:
        print_error(
            "the audit was stopped before it finished, so it has no result; nothing was changed; run it again"
        )
        raise click.exceptions.Exit(INTERRUPTED) from error
    except MENDABLE as error:
        print_error(str(error))
        raise click.exceptions.Exit(NOT_DONE) from error
    except Exception as error:
        # For a bug, show the traceback. The usual exit code 1 would mean that the bucket is damaged.
        sys.excepthook(type(error), error, error.__traceback__)
        raise click.exceptions.Exit(NOT_DONE) from error


def _run(
    location: "ClusterLocation", options: "AuditOptions", spark: SparkOptions | None
) -> "Report":
    """Run the audit, without Spark if `spark` is None."""
    from lacuna.cli.progress import bytes_done
    from lacuna.pipeline.audit import audit
    from lacuna.pipeline.session import parse_settings, spark_session

    with bytes_done(has_lines=False) as progress:
        if spark is None:
            return audit(location, options, None, progress)
        master, settings = spark.master, parse_settings(spark.conf or ())

        def open_spark() -> "AbstractContextManager[SparkSession]":
            progress.stage(f"starting Spark on {master}")
            return spark_session("lacuna verify", master, settings)

        return audit(location, options, open_spark, progress)
