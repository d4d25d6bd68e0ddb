"""Runs an export that is killed at a stage.

The tasks run in this process, because Spark's behaviour is not under test here.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from lacuna.operating.moto import CREDENTIALS
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.folder import FolderDestination
from lacuna.pipeline.export.job import ExportSettings
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.running import export_topics
from lacuna.pipeline.export.runs import RunLog, RunRecord
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.workers import Workers


def main(stage: str, data: str, topic: str, to: str, format: str, by: str) -> None:  # noqa: A002
    """Export. Does not return if it reaches the stage."""
    os.environ.update(CREDENTIALS)
    if stage in ("prepared", "committed"):
        replace(RunLog, "append", dying_append(stage))
    elif stage == "before-publishing":
        replace(FolderDestination, "publish", die)
        replace(BucketDestination, "publish", die)
    elif stage == "publishing":
        for kind, name in ((FolderDestination, "_gather"), (BucketDestination, "_copy")):
            replace(kind, name, dying_after_one(getattr(kind, name)))
    elif stage == "snapshot":
        from lacuna.pipeline.export import tables  # pyiceberg, which takes long to import

        replace(tables, "_append", die)
    settings = ExportSettings(to=to, format=format, layout=Layout(partition_by=by), task_bytes=1)
    list(export_topics(Workers(), find_cluster(data=data), settings, [topic]))


def replace(where: Any, name: str, new: Any) -> None:
    """Replace a file that must exist, so that a rename is noticed here."""
    assert hasattr(where, name)
    setattr(where, name, new)


def die(*_: object) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_append(kind: str) -> Callable[[RunLog, RunRecord], None]:
    """Die instead of appending a record of the kind."""
    append = RunLog.append

    def appending(log: RunLog, record: RunRecord) -> None:
        if record.kind == kind:
            die()
        append(log, record)

    return appending


def dying_after_one(function: Callable[..., None]) -> Callable[..., None]:
    """Die at the second call. S3's copies run in many threads, of which one succeeds."""
    from threading import Lock

    calls: list[int] = []
    lock = Lock()

    def calling(*arguments: Any) -> None:
        with lock:
            if calls:
                die()
            function(*arguments)
            calls.append(1)

    return calling
