"""Opens a Spark session for one of Lacuna's jobs, on any master."""

import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.interrupts import handler_kept, quiet, raised_again
from lacuna.pipeline.java import SHOWN, JvmOutput, find_java, write_launcher
from lacuna.pipeline.spark_errors import explain_spark_error, job_errors

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"
#: Seconds after which an address that does not answer counts as unreachable. Spark itself tries for a minute.
_ANSWERS_WITHIN: Final = 3.0
_STANDALONE: Final = "spark://"
_KNOWN: Final = re.compile(
    r"local"
    r"|local\[(?:\*|[1-9]\d*)(?:\s*,\s*[1-9]\d*)?\]"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://\S+"
    r"|yarn"
    r"|k8s://\S+"
)

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
#: A single process need not be reachable from outside.
_LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: The JVM only passes on data from Python, and full compilation took half of a job's CPU time in its first minute. For
#: their own long queries, users can set -XX:TieredStopAtLevel=4.
_QUICK_START: Final = "-XX:TieredStopAtLevel=1"
_PYTHON: Final = "spark.pyspark.python"
_EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."

#: The smallest heap with which the JVM starts. It only passes batches on; Python does most of the work.
_LEAST_DRIVER_BYTES: Final = 512 << 20
_MOST_DRIVER_BYTES: Final = 2 << 30
_DRIVER_SHARE: Final = 8
_MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")

#: Keeps only the warning that the cluster has no room for a waiting job. Errors of jobs reach Python anyway.
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
    """Opens a Spark session for the block. `settings` are Spark's, and override Lacuna's.

    If this process already has a session, that one is used unchanged and left running. Errors in the block are
    explained by `job_errors`. With `verbose`, Spark's warnings are shown. Raises PipelineError if Java, PySpark or the
    master is missing.
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
    """Parses the Spark settings passed to --conf. Raises PipelineError unless they have the form NAME=VALUE."""
    settings = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.startswith("spark."):
            raise PipelineError(
                f"{text!r} is not a Spark setting: specify --conf NAME=VALUE, for example --conf "
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
    with quiet(), raised_again():
        with _environment(JAVA_HOME=str(launcher), PYSPARK_PYTHON=python):
            context = _start(master, {**ours, **settings}, secrets, verbose)
        try:
            yield context
        finally:
            _stop(context)


def _stop(context: "SparkContext") -> None:
    with warnings.catch_warnings():
        # Ctrl-C may have broken the call that stops the session. The JVM ends with this process anyway.
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
        context.stop()


def _start(
    master: str, settings: dict[str, str], secrets: dict[str, str], verbose: bool
) -> "SparkContext":
    """Starts Spark. `secrets` are passed through a socket, because every user can read a process's command line."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext

    def conf(values: dict[str, str]) -> SparkConf:
        return SparkConf(loadDefaults=False).setAll(list(values.items()))

    # A JVM lives as long as the process that started it, so a second session uses the JVM of the first.
    gateway = SparkContext._gateway or _launch(conf(settings), verbose)
    SparkContext._ensure_initialized(gateway=gateway)
    try:
        with handler_kept():
            return SparkContext(gateway=gateway, conf=conf({**secrets, **settings}))
    except Py4JJavaError as error:
        told = explain_spark_error(error) or error.java_exception.getMessage()
        raise PipelineError(
            f"Spark did not start on {master}: {told}; check --master and --conf"
        ) from error


def _launch(conf: "SparkConf", verbose: bool) -> "JavaGateway":
    """Starts a JVM. Without `verbose`, its standard error, and that of its Python workers, is held back."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    output = JvmOutput()
    try:
        return launch_gateway(  # type: ignore[no-untyped-call]
            conf, {} if verbose else {"stderr": output.descriptor}
        )
    except PySparkRuntimeError as error:
        output.started()
        told = output.told() or "see its output above"
        raise PipelineError(
            f"Spark's Java process ended during startup: {told}. Check --conf"
        ) from error
    finally:
        output.started()


def _credentials() -> dict[str, str]:
    return {
        f"{_EXECUTOR_ENVIRONMENT}{name}": value
        for name, value in os.environ.items()
        if name.startswith("AWS_")
    }


def _driver_memory() -> str:
    """Returns the JVM's maximum heap: an eighth of the available memory, but at least 0.5 GiB and at most 2 GiB."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no cgroup, or one with "max"
        there = min(there, int(_MEMORY_LIMIT.read_text()))
    share = min(max(there // _DRIVER_SHARE, _LEAST_DRIVER_BYTES), _MOST_DRIVER_BYTES)
    return f"{share >> 20}m"


@contextmanager
def _environment(**values: str) -> Iterator[None]:
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


# The master.


def check_master(master: str) -> None:
    """Raises PipelineError unless Spark accepts the URL `master` and, for spark://, one of its addresses answers."""
    if not _KNOWN.fullmatch(master):
        raise PipelineError(
            f"{master!r} is not a Spark master: specify local[*], local[N] (N processor cores of this "
            "machine), spark://HOST:PORT, yarn or k8s://URL"
        )
    if master.startswith(_STANDALONE):
        _probe(master, _addresses(master))


def is_local(master: str) -> bool:
    """Whether this master runs everything in one JVM on this machine."""
    return re.fullmatch(r"local(?:\[.*\])?", master) is not None


def _addresses(master: str) -> list[tuple[str, int]]:
    """Parses spark://HOST:PORT[,HOST:PORT…]. All addresses after the first are standby masters."""
    addresses = []
    for text in master.removeprefix(_STANDALONE).split(","):
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise PipelineError(
                f"{master!r} is not the address of a Spark master: specify spark://HOST:PORT (7077 is the "
                "default port)"
            )
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def _probe(master: str, addresses: list[tuple[str, int]]) -> None:
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="probe") as executor:
        failures = list(executor.map(_failure, addresses))
    if all(failures):
        raise PipelineError(
            f"no Spark master answers at {master}: {failures[0]}; start one there, specify a different address "
            "with --master, or omit --master to run on this machine"
        )


def _failure(address: tuple[str, int]) -> str:
    try:
        socket.create_connection(address, _ANSWERS_WITHIN).close()
    except TimeoutError:
        return f"no response within {_ANSWERS_WITHIN:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""
