"""Metadata for as long as a query runs, over restarts of the control plane."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from controlplane.client.errors import ControlPlaneUnavailable
from pipeline.errors import PipelineError
from pipeline.location import ClusterLocation
from pipeline.metadata import MetadataSource, open_metadata
from pipeline.stores import check_store

_log = logging.getLogger("lacuna.datasource")

Result = TypeVar("Result")

#: Seconds that a query which has begun waits for a control plane that is away, and between attempts.
PATIENCE: Final = 120.0
_PAUSE: Final = 0.25


class Connection:
    """Opened at its first use. `find` is asked anew at each attempt: a restarted control plane may be
    elsewhere.
    """

    def __init__(
        self, find: Callable[[], ClusterLocation], kind: str, patience: float = PATIENCE
    ) -> None:
        self._find = find
        self._kind = kind
        self._patience = patience
        self._metadata: MetadataSource | None = None

    def use(self, work: Callable[[MetadataSource], Result]) -> Result:
        """What `work` gives, which may be done more than once.

        Raises ControlPlaneUnavailable at once where there never was a connection, else when the
        patience is at its end.
        """
        try:
            return work(self._open())
        except ControlPlaneUnavailable as error:
            if self._metadata is None:
                raise
            _log.warning("the control plane is away, the query waits for it: %s", error)
        return self._retry(work)

    def use_now(self, work: Callable[[MetadataSource], Result]) -> Result:
        """The same, without patience: for what nobody has to wait for.

        Raises ControlPlaneUnavailable, also where there is no connection now.
        """
        if self._metadata is None:
            raise ControlPlaneUnavailable("the connection to the control plane was lost")
        return work(self._metadata)

    def close(self) -> None:
        """A later use opens it again."""
        if self._metadata is not None:
            self._metadata.close()
            self._metadata = None

    def _open(self) -> MetadataSource:
        if self._metadata is None:
            location = self._find()
            metadata = open_metadata(location, self._kind)
            try:
                check_store(location.store, metadata.cluster_id)
            except BaseException:
                metadata.close()
                raise
            self._metadata = metadata
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
            # The data folder names no control plane while none runs on it.
            raise ControlPlaneUnavailable(str(error)) from error
