"""What really went wrong in a Spark job, dug out of what Spark wraps around it.

An error in a task reaches the driver as text: a Python traceback within one or two Java ones. Our own
errors, which say what to do, are found in there by their names; what commonly goes wrong in Spark itself
gets a line of ours.
"""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controlplane.client import CommandRefused, ControlPlaneUnavailable
from logstore.objects import ObjectStoreError
from logstore.segments import CorruptSegmentError, ForeignStoreError
from pipeline.errors import PipelineError

#: Errors whose message is for whoever started the job.
_TOLD: Final = (
    PipelineError,
    CommandRefused,
    ControlPlaneUnavailable,
    CorruptSegmentError,
    ForeignStoreError,
    ObjectStoreError,
)
#: The last line of a Python traceback that ends in an error of ours.
_OURS: Final = re.compile(
    r"^\s*(?:\S+: )?(?P<module>(?:pipeline|pyspark_lacuna|logstore|controlplane)(?:\.\w+)*)"
    r"\.(?P<name>\w+): (?P<message>.+)$",
    re.MULTILINE,
)
#: What Spark says of its own troubles, and what to do then.
_COMMON: Final = {
    r"ModuleNotFoundError: No module named '(?:pipeline|pyspark_lacuna|logstore|controlplane)": (
        "Spark's executors have no lacuna: install the same lacuna[spark] for the Python that they "
        "run, and name that Python with PYSPARK_PYTHON"
    ),
    r"Cannot run program \"(?P<name>[^\"]+)\"": (
        "Spark's executors have no {name}: name their Python, which needs the same lacuna[spark], "
        "with PYSPARK_PYTHON"
    ),
    r"Python in worker has different version[^\n]*": (
        "Spark's executors run another version of Python than this command: name the same one with "
        "PYSPARK_PYTHON"
    ),
    r"Python worker exited unexpectedly": (
        "a Python worker of Spark's was killed, most often for want of memory: give the job fewer "
        "tasks at a time (--master 'local[N]'), or more memory"
    ),
    r"java\.lang\.OutOfMemoryError[^\n]*": (
        "Spark's Java process ran out of memory: give it more with --conf spark.driver.memory=4g "
        "(on a cluster also spark.executor.memory)"
    ),
    r"on a stopped SparkContext|SparkContext was shut down|All masters are unresponsive": (
        "Spark gave the job up: nobody at --master answered as a Spark master, or it removed the job; "
        "check --master, and see the master's log"
    ),
    r"ExecutorLostFailure[^\n]*": (
        "Spark lost an executor again and again: see the logs of its workers; more memory for "
        "executors may help (--conf spark.executor.memory=4g)"
    ),
}
_PACKAGES: Final = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")


class JobInterrupted(PipelineError):
    """Ctrl-C."""


@contextmanager
def job_errors() -> Iterator[None]:
    """What fails in a Spark job in the block leaves it as an error that says in one line what to do.

    A PipelineError, of the same class where a task raised one. What cannot be explained leaves as it
    came. Imports of what needs PySpark belong into the block: a missing package is explained, too.
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
        "stopped: what was committed stays; what was not is garbage that collection removes"
    )


def _is_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C came first. py4j closes its connections then, and what PySpark still asks the JVM on
    its way out may fail on that.
    """
    while error is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            return True
    return False


def explain_spark_error(error: BaseException) -> str | None:
    """What to tell about an error of a Spark job, in one line; None where it is not known."""
    cause = cause_of(error)
    return None if cause is None else str(cause)


def cause_of(error: BaseException) -> Exception | None:
    """The error to tell in the place of one of a Spark job: of the same class where a task raised a
    PipelineError. None where it is not known.
    """
    if isinstance(error, _TOLD):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _PACKAGES:
        return PipelineError(f"this needs {error.name}: pip install 'lacuna[spark]'")
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    if ours := _ours(text):
        return ours
    for pattern, advice in _COMMON.items():
        if found := re.search(pattern, text):
            return PipelineError(advice.format(**found.groupdict()))
    if type(error).__name__ in ("Py4JNetworkError", "Py4JConnectionError"):
        return PipelineError(
            "Spark's Java process has ended in the middle of the job: run it again"
        )
    return None


def _ours(text: str) -> Exception | None:
    """The error that the last of the chained tracebacks ends in."""
    for found in reversed(list(_OURS.finditer(text))):
        try:
            kind = getattr(importlib.import_module(found["module"]), found["name"], None)
        except ImportError:  # a task has another version of us
            continue
        if isinstance(kind, type) and issubclass(kind, _TOLD):
            message = " ".join(found["message"].split())
            return kind(message) if issubclass(kind, PipelineError) else PipelineError(message)
    return None
