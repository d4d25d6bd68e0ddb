"""A Spark job of an export: its progress, and its end."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

_POLL_SECONDS: Final = 0.5
_END_POLL_SECONDS: Final = 0.05
#: Spark kills the Python worker of a cancelled task within four seconds, unless its executor is out of reach.
_END_SECONDS: Final = 30.0


class Progress(Protocol):
    """Who is told how far an export is."""

    def begin(self, topic: str, tasks: int) -> None:
        """A topic's tasks start."""

    def done(self, tasks: int) -> None:
        """So many of them have ended."""


class NoProgress:
    """Nobody is told."""

    def begin(self, topic: str, tasks: int) -> None:
        """Nothing."""

    def done(self, tasks: int) -> None:
        """Nothing."""


@contextmanager
def watched(context: SparkContext, progress: Progress) -> Iterator[None]:
    """For one Spark job, from the thread that is within. When one that fails is left, no task of it writes
    any more: Spark tells of the failure at once, while other tasks still run, and kills them behind that.
    """
    group = f"lacuna-export-{uuid.uuid4().hex}"
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            progress.done(sum(stage.numCompletedTasks for stage in _stages(context, group)))

    watcher = threading.Thread(target=watch, name="export-progress", daemon=True)
    context.setJobGroup(group, "lacuna export")
    watcher.start()
    try:
        yield
    except Exception:
        with suppress(Py4JError):  # no JVM, no tasks
            _await_end(context, group)
        raise
    finally:
        ended.set()
        watcher.join()


def _await_end(context: SparkContext, group: str) -> None:
    """Until no task runs, or for half a minute: a file that comes later is deleted by the next run."""
    deadline = time.monotonic() + _END_SECONDS
    while _is_under_way(context, group) and time.monotonic() < deadline:
        time.sleep(_END_POLL_SECONDS)  # Spark has no event for Python


def _is_under_way(context: SparkContext, group: str) -> bool:
    # Spark's status follows its events in their order: where it has the end of a job, it has the start of
    # all tasks.
    return any(job.status == "RUNNING" for job in _jobs(context, group)) or any(
        stage.numActiveTasks for stage in _stages(context, group)
    )


def _jobs(context: SparkContext, group: str) -> list[Any]:
    """What Spark knows of them; nothing where it has not begun one yet, or has forgotten it."""
    tracker: Any = context.statusTracker()
    return [job for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)) if job]


def _stages(context: SparkContext, group: str) -> list[Any]:
    """The same of their stages."""
    tracker: Any = context.statusTracker()
    stages = [stage for job in _jobs(context, group) for stage in job.stageIds]
    return [stage for stage in map(tracker.getStageInfo, stages) if stage]
