"""The choice between Spark and this process, for jobs that need no Spark where there is little to do."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.base.errors import UserError
from lacuna.cli.command_line import option
from lacuna.cli.options import is_typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lacuna.pipeline.progress import Progress
    from lacuna.pipeline.workers import Workers

UseSpark = Annotated[
    bool | None,
    option(
        "--spark/--no-spark",
        help="Run on Spark, or in this process alone, which needs no Java. Default: Spark if --master or --conf "
        "is given, or if it is installed and there is more than 1 GiB to read.",
        show_default=False,
    ),
]


def asked_for_spark(
    context: click.Context, uses_spark: bool | None, conf: Sequence[str] | None
) -> bool | None:
    """Whether the command line asks for Spark, by --spark or by settings of Spark; None if it leaves the choice.

    Raises UserError for settings of Spark together with --no-spark.
    """
    if not (is_typed(context, "master") or conf):
        return uses_spark
    if uses_spark is False:
        raise UserError(
            "--no-spark does not use Spark: leave --master and --conf out, or --no-spark"
        )
    return True


def choose_workers(
    name: str,
    uses_spark: bool | None,
    spark: tuple[str, Sequence[str]],
    progress: "Progress",
    stack: ExitStack,
) -> "Workers":
    """What runs the tasks of the job `name`. Spark, given by its master and settings, starts at its first use.

    The stack ends it. Raises PipelineError for a master that is none or does not answer, if Spark was asked for.
    """
    from lacuna.pipeline.master import check_master
    from lacuna.pipeline.session import parse_settings, spark_session
    from lacuna.pipeline.workers import SPARK_FROM_BYTES, Workers

    if uses_spark is False or (uses_spark is None and find_spec("pyspark") is None):
        return Workers()
    master, conf = spark
    settings = parse_settings(conf)
    check_master(settings.get("spark.master", master))

    @cache
    def open_spark() -> "SparkSession":
        progress.stage(f"starting Spark on {master}")
        session = stack.enter_context(spark_session(name, master, settings))
        progress.stage("working on Spark")
        return session

    return Workers(open_spark, SPARK_FROM_BYTES if uses_spark is None else 0)
