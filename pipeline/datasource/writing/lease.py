"""The lease of a task attempt, and the ids of the segments that are written under it."""

import logging
import time
from collections.abc import Callable
from typing import Final

from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease, RenewLease
from controlplane.v1.control_pb2 import Command
from logstore.segments import SegmentId
from pipeline.control import check
from pipeline.datasource.writing.control import RetryingControlPlane

log = logging.getLogger("lacuna.pipeline.writing")

#: Seconds that the driver has, from the end of a task on, to commit what the task wrote. No longer does the
#: garbage of a killed executor stay.
LEASE_SECONDS: Final = 24 * 3600


class JobLease:
    """Opened when it is made; each attempt has its own, so that no two ever use one segment id.

    Where a reply was lost another one is opened, and the first one expires.

    `clock` gives seconds that only go up.
    """

    def __init__(
        self, control: RetryingControlPlane, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._control = control
        self._clock = clock
        opened = control.ask(Command(open_lease=OpenLease(duration_ms=LEASE_SECONDS * 1000)))
        check(opened.lease_opened.error_code, "opening a lease")
        self.lease_id: int = opened.lease_opened.lease_id
        self.cluster_id: str = opened.lease_opened.cluster_id
        self._renewed_at = clock()
        self._sequence = 0

    def next_segment_id(self) -> SegmentId:
        """An id never given before."""
        self._sequence += 1
        return SegmentId(self.lease_id, self._sequence)

    def renew(self, older_than_seconds: float = LEASE_SECONDS / 3) -> None:
        """From now on it holds as long as at its beginning; not asked for where it is younger."""
        if self._clock() - self._renewed_at < older_than_seconds:
            return
        reply = self._control.ask(Command(renew_lease=RenewLease(lease_id=self.lease_id)))
        check(reply.lease_renewed.error_code, "renewing the lease of a task")
        self._renewed_at = self._clock()

    def release(self) -> None:
        """What was written under it is garbage. Where that cannot be said now, it ends by itself."""
        try:
            self._control.call(Command(release_lease=ReleaseLease(lease_id=self.lease_id)))
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning("lease %d was not given back: %s", self.lease_id, error)
