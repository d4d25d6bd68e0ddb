"""A connection to a source of metadata that lasts as long as a query, even if the control plane restarts."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.metadata import MetadataSource, open_checked

_log = logging.getLogger("lacuna.datasource")

Result = TypeVar("Result")

#: How long, in seconds, a running query waits for an unreachable control plane, and pauses between attempts.
PATIENCE: Final = 120.0
_PAUSE: Final = 0.25


class Connection:
    """A connection to a source of metadata, opened on first use and reopened when it is lost.

    Every attempt calls `find`, because a restarted control plane may have a new address. `kind` is "control" or
    "bucket"; `patience` is in seconds.
    """

    def __init__(
        self, find: Callable[[], ClusterLocation], kind: str, patience: float = PATIENCE
    ) -> None:
        self._find = find
        self._kind = kind
        self._patience = patience
        self._metadata: MetadataSource | None = None

    def use(self, work: Callable[[MetadataSource], Result]) -> Result:
        """Passes the metadata to `work`, and returns the result. Calls `work` again if the connection is lost.

        Raises ControlPlaneUnavailable: immediately if the first connection cannot be opened, and after `patience`
        seconds if a connection was lost.
        """
        try:
            return work(self._open())
        except ControlPlaneUnavailable as error:
            if self._metadata is None:
                raise
            _log.warning(
                "the control plane cannot be reached; the query is waiting for it: %s", error
            )
        return self._retry(work)

    def use_now(self, work: Callable[[MetadataSource], Result]) -> Result:
        """Calls `work` once, without waiting. Raises ControlPlaneUnavailable, for example if no connection is open."""
        if self._metadata is None:
            raise ControlPlaneUnavailable("the connection to the control plane was lost")
        return work(self._metadata)

    def close(self) -> None:
        """Closes the connection. The next use reopens it."""
        if self._metadata is not None:
            self._metadata.close()
            self._metadata = None

    def _open(self) -> MetadataSource:
        if self._metadata is None:
            self._metadata = open_checked(self._find(), self._kind)
        return self._metadata

    def _retry(self, work: Callable[[MetadataSource], Result]) -> Result:
        give_up_at = time.monotonic() + self._patience
        pause = threading.Event()
        while True:
            try:
                return work(self._reopen())
            except ControlPlaneUnavailable:
                if time.monotonic() > give_up_at:
                    raise
            pause.wait(_PAUSE)

    def _reopen(self) -> MetadataSource:
        try:
            self.close()
            return self._open()
        except PipelineError as error:
            # While no control plane runs on the data folder, the folder does not name one.
            raise ControlPlaneUnavailable(str(error)) from error
