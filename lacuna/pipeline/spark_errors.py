"""Finds the cause of a Spark job's failure in the error that Spark wraps around it.

An error in a task reaches the driver as text: a Python traceback within one or two Java ones. Lacuna's own errors,
which say what to do, are recognized there by name. For common failures of Spark itself, this module provides messages.
"""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.logstore.objects import ObjectStoreError
from lacuna.logstore.segments import CorruptSegmentError, ForeignStoreError
from lacuna.pipeline.errors import JobInterrupted, PipelineError

#: Errors whose message is for the user who started the job.
EXPLAINED: Final = (
    PipelineError,
    CommandRefused,
    ControlPlaneUnavailable,
    CorruptSegmentError,
    ForeignStoreError,
    ObjectStoreError,
)
#: The last line of a Python traceback that ends in one of Lacuna's errors.
_OURS: Final = re.compile(
    r"^\s*(?:\S+: )?(?P<module>(?:lacuna|pyspark_lacuna)(?:\.\w+)*)"
    r"\.(?P<name>\w+): (?P<message>.+)$",
    re.MULTILINE,
)
#: Spark's messages for its common failures, and what to do about each.
_COMMON: Final = {
    r"ModuleNotFoundError: No module named '(?:lacuna|pyspark_lacuna)\b": (
        "lacuna is not installed on Spark's executors: install the same lacuna-log[spark] for the "
        "Python that they run, and specify that Python with PYSPARK_PYTHON"
    ),
    r"Cannot run program \"(?P<name>[^\"]+)\"": (
        "Spark's executors cannot run {name}: specify the path of their Python with PYSPARK_PYTHON; it needs "
        "the same lacuna-log[spark]"
    ),
    r"Python in worker has different version[^\n]*": (
        "Spark's executors run a version of Python that differs from this command's: set PYSPARK_PYTHON to a "
        "Python of the same version"
    ),
    r"Python worker exited unexpectedly": (
        "a Spark Python worker was killed, most likely because memory ran out: run fewer tasks at a "
        "time (--master 'local[N]'), or give it more memory"
    ),
    r"java\.lang\.OutOfMemoryError[^\n]*": (
        "Spark's Java process ran out of memory: give it more with --conf spark.driver.memory=4g "
        "(on a cluster also spark.executor.memory)"
    ),
    r"on a stopped SparkContext|SparkContext was shut down|All masters are unresponsive": (
        "Spark gave up on the job: no Spark master answered at --master, or it removed the job; check "
        "--master, and see the master's log"
    ),
    r"ExecutorLostFailure[^\n]*": (
        "Spark lost an executor repeatedly: see the logs of its workers; more memory for executors may "
        "help (--conf spark.executor.memory=4g)"
    ),
}
_PACKAGES: Final = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")


@contextmanager
def job_errors() -> Iterator[None]:
    """Replaces errors of Spark jobs in the block with one-line errors that say what to do.

    An error that a task raised keeps its class if it is a PipelineError; other known errors become a PipelineError, and
    Ctrl-C becomes JobInterrupted. Unknown errors are raised unchanged. Imports that need PySpark should be in the
    block, so that a missing package is explained too.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted() from None
    except Exception as error:
        if _is_of_an_interrupt(error):
            raise _interrupted() from None
        cause = cause_of(error)
        if cause is None or cause is error:
            raise
        raise cause from error


def _interrupted() -> JobInterrupted:
    return JobInterrupted(
        "stopped: everything that was committed remains; the rest is garbage that collection deletes"
    )


def _is_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C led to this error: py4j then closes its connections, so pending calls to the JVM may fail."""
    while error is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            return True
    return False


def explain_spark_error(error: BaseException) -> str | None:
    """Returns a one-line explanation of a Spark job's error, or None if the error is unknown."""
    cause = cause_of(error)
    return None if cause is None else str(cause)


def cause_of(error: BaseException) -> Exception | None:
    """Returns the error behind a Spark job's error, or None if unknown. A task's PipelineError keeps its class."""
    if isinstance(error, EXPLAINED):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _PACKAGES:
        return PipelineError(f"this needs {error.name}: pip install 'lacuna-log[spark]'")
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    if ours := _ours(text):
        return ours
    for pattern, advice in _COMMON.items():
        if found := re.search(pattern, text):
            return PipelineError(advice.format(**found.groupdict()))
    if type(error).__name__ in ("Py4JNetworkError", "Py4JConnectionError"):
        return PipelineError("Spark's Java process ended in the middle of the job: run it again")
    return None


def _ours(text: str) -> Exception | None:
    """Returns Lacuna's own error at the end of the last chained traceback, or None."""
    for found in reversed(list(_OURS.finditer(text))):
        try:
            kind = getattr(importlib.import_module(found["module"]), found["name"], None)
        except ImportError:  # the task runs a different version of lacuna
            continue
        if isinstance(kind, type) and issubclass(kind, EXPLAINED):
            message = " ".join(found["message"].split())
            return kind(message) if issubclass(kind, PipelineError) else PipelineError(message)
    return None
