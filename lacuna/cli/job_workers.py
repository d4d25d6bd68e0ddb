"""For jobs: chooses between Spark and this process, and checks that report files can be written."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.base.errors import UserError
from lacuna.cli.command_line import option
from lacuna.cli.configuration import is_typed
from lacuna.cli.errors import fail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lacuna.pipeline.workers import Progress, Workers

_SPARK = "Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    spark: Annotated[
        bool | None,
        option(
            "--spark/--no-spark",
            help="Run on Spark, or in this process alone, which needs no Java. Default: Spark if --master or --conf "
            "is given, or if it is installed and there is more than 1 GiB to read.",
        ),
    ] = None
    master: Annotated[
        str,
        option(
            envvar="LACUNA_SPARK_MASTER",
            help="Where Spark runs: local[*], local[N], spark://HOST:PORT, yarn or k8s://URL.",
            panel=_SPARK,
        ),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None, option(help="A Spark setting, NAME=VALUE. May be repeated.", panel=_SPARK)
    ] = None

    def choice(self) -> bool | None:
        """Return whether to use Spark, or None if the user expressed no choice through --spark or Spark settings.

        Raises UserError if Spark settings are combined with --no-spark.
        """
        if not (is_typed(click.get_current_context(), "master") or self.conf):
            return self.spark
        if self.spark is False:
            raise UserError(
                "--master and --conf have no effect with --no-spark: omit them, or omit --no-spark"
            )
        return True


def choose_workers(
    name: str,
    uses_spark: bool | None,
    options: SparkOptions,
    progress: "Progress",
    stack: ExitStack,
) -> "Workers":
    """Return the workers for the job `name`. Spark starts on first use, and stops when `stack` is closed.

    Raises PipelineError if the Spark master is invalid or does not respond.
    """
    from lacuna.pipeline.session import check_master, parse_settings, spark_session
    from lacuna.pipeline.workers import SPARK_FROM_BYTES, Workers

    if uses_spark is False or (uses_spark is None and find_spec("pyspark") is None):
        return Workers()
    settings = parse_settings(options.conf or ())
    check_master(settings.get("spark.master", options.master))

    @cache
    def open_spark() -> "SparkSession":
        progress.stage(f"starting Spark on {options.master}")
        session = stack.enter_context(spark_session(name, options.master, settings))
        progress.stage("working on Spark")
        return session

    return Workers(open_spark, SPARK_FROM_BYTES if uses_spark is None else 0)


def check_report_file(option: str, file: Path | str | None) -> None:
    """Raises UserError, naming `option`, if a report cannot be written to `file`.

    Call it before the work begins, so that the report is not lost at the end. None (no report) and "-" (standard
    output) always pass.
    """
    if file is None or str(file) == "-":
        return
    path = Path(file)
    if path.is_dir():
        fail(f"{option} {path} is a folder: specify a file in the folder")
    if not path.parent.is_dir():
        fail(
            f"{option} {path}: the folder {path.parent} does not exist: create it, or choose another file"
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        fail(f"{option} {path} is not writable: change its permissions, or choose another file")
