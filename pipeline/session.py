"""A Spark session for a job of ours, on any master."""

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.errors import PipelineError
from pipeline.java import find_java, write_launcher
from pipeline.jvm_output import SHOWN, JvmOutput
from pipeline.master import check_master, is_local
from pipeline.spark_errors import explain_spark_error, job_errors

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
#: Where everything is one process, nobody needs to reach it from outside.
_LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: The JVM passes on what Python made; compiling itself thoroughly took half of the CPU that a job has in its
#: first minute. Whoever runs long queries of their own in it gives -XX:TieredStopAtLevel=4.
_QUICK_START: Final = "-XX:TieredStopAtLevel=1"
_PYTHON: Final = "spark.pyspark.python"
_EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."

#: Most of the work is done in Python; the JVM passes batches on. It cannot start with less than these.
_LEAST_DRIVER_BYTES: Final = 512 << 20
_MOST_DRIVER_BYTES: Final = 2 << 30
_DRIVER_SHARE: Final = 8
_MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")

#: Nothing but what a waiting job must tell: that the cluster has no room for it. Errors of a job reach Python.
_QUIET: Final = """\
rootLogger.level = off
logger.gateway.level = off
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
logger.scheduler.filter.waiting.type = RegexFilter
logger.scheduler.filter.waiting.regex = Initial job has not accepted any resources.*
"""
_VERBOSE: Final = """\
rootLogger.level = warn
logger.gateway.level = warn
"""
_LOGGING: Final = """\
status = off
{levels}logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = {shown}%d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@contextmanager
def spark_session(
    name: str,
    master: str = DEFAULT_MASTER,
    settings: Mapping[str, str] | None = None,
    *,
    verbose: bool = False,
) -> "Iterator[SparkSession]":
    """A session for the block, stopped at its end. `settings` are Spark's, and win over ours.

    Where this process has a session already that one is used as it is, and left running. Errors leave
    the block as `job_errors` explains them. `verbose`: Spark's warnings are shown. Raises PipelineError
    where Java, PySpark or the master is missing.
    """
    with job_errors():
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if running := SparkContext._active_spark_context:
            yield SparkSession(running)
            return
        given = dict(settings or {})
        master = given.pop("spark.master", master)
        check_master(master)
        with (
            tempfile.TemporaryDirectory(prefix="lacuna-spark-", ignore_cleanup_errors=True) as made,
            _context(name, master, given, Path(made), verbose) as context,
        ):
            yield SparkSession(context)


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Settings from NAME=VALUE, as --conf takes them. Raises PipelineError."""
    settings = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.startswith("spark."):
            raise PipelineError(
                f"{text!r} is no setting of Spark's: write --conf NAME=VALUE, for example --conf "
                "spark.driver.memory=2g"
            )
        settings[name] = value
    return settings


@contextmanager
def _context(
    name: str, master: str, settings: dict[str, str], folder: Path, verbose: bool
) -> "Iterator[SparkContext]":
    launcher = write_launcher(folder / "java", find_java())
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(levels=_VERBOSE if verbose else _QUIET, shown=SHOWN))
    own = settings.pop(_JVM_OPTIONS, "")
    options = f"-Dlog4j2.configurationFile={logging.as_uri()} {_QUICK_START} {own}"
    ours = {
        **_SETTINGS,
        "spark.app.name": name,
        "spark.master": master,
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        _JVM_OPTIONS: options.strip(),
    }
    if is_local(master):
        ours |= {**_LOCAL_SETTINGS, "spark.driver.memory": _driver_memory()}
    python = settings.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    secrets = {} if is_local(master) else _credentials()
    with _quiet_interrupts():
        with _environment(JAVA_HOME=str(launcher), PYSPARK_PYTHON=python):
            context = _start(master, {**ours, **settings}, secrets, verbose)
        try:
            yield context
        finally:
            context.stop()


def _start(
    master: str, settings: dict[str, str], secrets: dict[str, str], verbose: bool
) -> "SparkContext":
    """`secrets` reach Spark through its socket: the command line of a process is everybody's to read."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext

    def conf(values: dict[str, str]) -> SparkConf:
        return SparkConf(loadDefaults=False).setAll(list(values.items()))

    # A JVM lives as long as the process that started it: a second session finds the first one's.
    gateway = SparkContext._gateway or _launch(conf(settings), verbose)
    SparkContext._ensure_initialized(gateway=gateway)
    try:
        with _handler_kept():
            return SparkContext(gateway=gateway, conf=conf({**secrets, **settings}))
    except Py4JJavaError as error:
        told = explain_spark_error(error) or error.java_exception.getMessage()
        raise PipelineError(f"Spark did not start on {master}: {told}") from error


def _launch(conf: "SparkConf", verbose: bool) -> "JavaGateway":
    """A JVM, with what it and its Python workers print shown or kept back."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    output = JvmOutput()
    try:
        return launch_gateway(  # type: ignore[no-untyped-call]
            conf, {} if verbose else {"stderr": output.descriptor}
        )
    except PySparkRuntimeError as error:
        output.started()
        told = output.told() or "what it said stands above"
        raise PipelineError(
            f"Spark's Java process ended while it started: {told}. Check --conf"
        ) from error
    finally:
        output.started()


def _credentials() -> dict[str, str]:
    """What tasks on other machines need to open an S3 bucket."""
    return {
        f"{_EXECUTOR_ENVIRONMENT}{name}": value
        for name, value in os.environ.items()
        if name.startswith("AWS_")
    }


def _driver_memory() -> str:
    """The JVM's largest heap: an eighth of the memory there is, between half and two GiB."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no cgroup, or one that says "max"
        there = min(there, int(_MEMORY_LIMIT.read_text()))
    share = min(max(there // _DRIVER_SHARE, _LEAST_DRIVER_BYTES), _MOST_DRIVER_BYTES)
    return f"{share >> 20}m"


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """In the block py4j does not print tracebacks of its own for Ctrl-C."""
    own, level = logging.getLogger("py4j"), logging.getLogger("py4j").level

    def is_wanted(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    logging.getLogger().addFilter(is_wanted)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        own.setLevel(level)
        logging.getLogger().removeFilter(is_wanted)


@contextmanager
def _handler_kept() -> Iterator[None]:
    """What Ctrl-C does is the same after the block.

    PySpark's own handler would ask the JVM on the connection that waits for an answer. To stop the
    session, which a KeyboardInterrupt leads to, cancels its jobs as well.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables for whoever is started in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
