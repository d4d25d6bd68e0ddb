"""`lacuna verify`: is every byte in the bucket what was written, and does all of it fit the metadata?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.errors import MENDABLE, print_error
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, Master, SparkConf, Store
from lacuna.cli.report_files import check_report_file
from lacuna.errors import UserError

if TYPE_CHECKING:
    from pipeline.audit import AuditOptions, Report
    from pipeline.location import ClusterLocation

FOUND = 1
NOT_DONE = 2

_SOURCES = ("control", "bucket")


def verify(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            help="Only this topic, as often as you like; what is no topic's is left out then.",
        ),
    ] = None,
    metadata_only: Annotated[
        bool,
        typer.Option("--metadata-only", help="Check metadata and the listing; read no object."),
    ] = False,
    checksums_only: Annotated[
        bool,
        typer.Option(
            "--checksums-only", help="Check all checksums, but do not decompress and parse records."
        ),
    ] = False,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Count the distinct keys of every partition; reads it again."),
    ] = False,
    metadata: Annotated[
        str,
        typer.Option(
            "--metadata",
            help="Where metadata comes from: control, or bucket: its newest snapshot, without a server.",
        ),
    ] = _SOURCES[0],
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report as JSON to this file; - prints it instead."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the report as a page to this file.")
    ] = None,
    no_spark: Annotated[
        bool,
        typer.Option(
            "--no-spark", help="Read in this process alone: slower, and no Java is needed."
        ),
    ] = False,
    control: Control = None,
    data: Data = None,
    store: Store = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Audits the bucket: reads all of it and holds it against the control plane.

    Checks every checksum, batch, offset and outcome, finds objects that nothing refers to, and says where damage
    lies and which offsets it hits. Changes nothing, and may run while the cluster is in use.

    Exit code: 0 all is sound, 1 something is wrong, 2 the audit could not be done.
    """
    try:
        _check_packages()
        from lacuna.cli.verification import print_report, write_html, write_json
        from pipeline.audit import AuditOptions

        if metadata not in _SOURCES:
            raise UserError(f"--metadata is control or bucket, not {metadata!r}")
        if metadata_only and (keys or checksums_only):
            raise UserError(
                "--metadata-only reads no object: leave --keys and --checksums-only out"
            )
        if keys and no_spark:
            raise UserError("keys are counted by Spark: leave --keys or --no-spark out")
        check_report_file("--json", json)
        check_report_file("--html", html)
        location = locate(data, control, store, needs_control=metadata == _SOURCES[0])
        options = AuditOptions(
            topics=tuple(topic or ()),
            metadata=metadata,
            reads_objects=not metadata_only,
            reads_records=not checksums_only,
            counts_keys=keys,
        )
        report = _run(location, options, None if no_spark else master, conf or [])
        if html is not None:
            write_html(report, html)
        if json is not None:
            write_json(report, json)
        if json is None or str(json) != "-":
            print_report(report)
    except MENDABLE as error:
        print_error(str(error))
        raise typer.Exit(NOT_DONE) from error
    except Exception as error:
        # Our own mistake, with its trace; its usual code 1 would say that the bucket is damaged.
        sys.excepthook(type(error), error, error.__traceback__)
        raise typer.Exit(NOT_DONE) from error
    if not report.is_sound:
        raise typer.Exit(FOUND)


def _check_packages() -> None:
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError("this needs numpy: pip install 'lacuna[spark]'") from error


def _run(
    location: "ClusterLocation", options: "AuditOptions", master: str | None, conf: list[str]
) -> "Report":
    """`master` None: without Spark."""
    from lacuna.cli.verification import ProgressBar
    from pipeline.audit import audit
    from pipeline.session import parse_settings, spark_session

    with ProgressBar() as progress:
        if master is None:
            return audit(location, options, None, progress)
        settings = parse_settings(conf)
        return audit(
            location, options, lambda: spark_session("lacuna verify", master, settings), progress
        )
