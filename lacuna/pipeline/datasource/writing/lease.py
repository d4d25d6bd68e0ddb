import logging
import time
from collections.abc import Callable
from typing import Final

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease, RenewLease
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.segments import SegmentId
from lacuna.pipeline.control import check
from lacuna.pipeline.datasource.writing.control import RetryingJobClient

log = logging.getLogger("lacuna.pipeline.writing")

#: How long, in seconds, the driver has to commit a task's segments after the task ends, and how long the garbage of a
#: killed executor is kept.
LEASE_SECONDS: Final = 24 * 3600


class JobLease:
    """The lease of one task attempt. No two attempts share a lease, so no two write segments with the same id.

    The constructor opens the lease. If the reply is lost, it opens a new one and lets the first expire. `clock` returns
    monotonic seconds. Raises PipelineError, ControlPlaneUnavailable, CommandRefused.
    """

    def __init__(
        self, control: RetryingJobClient, clock: Callable[[], float] = time.monotonic
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
        self._sequence += 1
        return SegmentId(self.lease_id, self._sequence)

    def renew(self, older_than_seconds: float = LEASE_SECONDS / 3) -> None:
        """Extends the lease to LEASE_SECONDS from now, unless it was extended less than `older_than_seconds` ago."""
        if self._clock() - self._renewed_at < older_than_seconds:
            return
        reply = self._control.ask(Command(renew_lease=RenewLease(lease_id=self.lease_id)))
        check(reply.lease_renewed.error_code, "renewing the lease of a task")
        self._renewed_at = self._clock()

    def release(self) -> None:
        """Ends the lease, so that everything written under it becomes garbage. If that fails, the lease expires."""
        try:
            self._control.call(Command(release_lease=ReleaseLease(lease_id=self.lease_id)))
        except (ControlPlaneUnavailable, CommandRefused) as error:
            log.warning(
                "lease %d could not be released, so it will expire by itself: %s",
                self.lease_id,
                error,
            )
