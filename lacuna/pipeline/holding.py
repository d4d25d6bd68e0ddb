"""Keeps a pin on the objects that a running job reads and, if the job writes, a lease for its segments."""

import threading
from typing import Final, Self

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease, RenewLease
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PinReads, UnpinReads
from lacuna.pipeline.control import JobClient, check
from lacuna.pipeline.errors import StaleMetadataError

#: How long, in seconds, a killed job's garbage and pinned objects are kept; also how long a job survives
#: without the control plane.
HOLD_SECONDS: Final = 600.0


class ReadHold:
    """A context manager that pins the log: nothing that is live on entry is collected before exit.

    A background thread renews the pin, however long the job takes. `lost` is set if the pin ended too early, because
    the control plane was unreachable for more than `seconds`. Raises ControlPlaneUnavailable, CommandRefused,
    PipelineError.
    """

    #: What the job has lost, as named in the error.
    held = "pin"

    def __init__(self, control: JobClient, seconds: float = HOLD_SECONDS) -> None:
        self._control = control
        self._duration_ms = int(seconds * 1000)
        self._pin_id = 0
        self._end = threading.Event()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._renew_on, name="job-hold", daemon=True)

    def __enter__(self) -> Self:
        self._open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        try:
            self._give_back()
        except (ControlPlaneUnavailable, CommandRefused):
            return  # the pin and the lease expire by themselves

    def check(self) -> None:
        """Raises StaleMetadataError if the hold was lost, since the pinned objects may be gone."""
        if self.lost.is_set():
            raise hold_lost(self.held)

    def confirm(self) -> None:
        """Renews the hold immediately, if the control plane can be reached, and checks it as `check` does."""
        self._prolong()
        self.check()

    def _open(self) -> None:
        pin = PinReads(duration_ms=self._duration_ms)
        reply = self._control.call(Command(pin_reads=pin)).reads_pinned
        check(reply.error_code, "pinning the log to read")
        self._pin_id = reply.pin_id

    def _renew(self) -> list[int]:
        pin = PinReads(duration_ms=self._duration_ms, pin_id=self._pin_id)
        return [self._control.call(Command(pin_reads=pin)).reads_pinned.error_code]

    def _give_back(self) -> None:
        self._control.call(Command(unpin_reads=UnpinReads(pin_id=self._pin_id)))

    def _renew_on(self) -> None:
        while not self._end.wait(self._duration_ms / 5000) and not self.lost.is_set():
            self._prolong()

    def _prolong(self) -> None:
        try:
            codes = self._renew()
        except (ControlPlaneUnavailable, CommandRefused):
            return  # a later renewal may succeed; its reply shows whether the hold has ended
        if any(code != ErrorCode.NONE for code in codes):
            self.lost.set()


class JobHold(ReadHold):
    """A ReadHold with a lease, under which the job writes its segments."""

    held = "lease"

    def __init__(self, control: JobClient, seconds: float = HOLD_SECONDS) -> None:
        super().__init__(control, seconds)
        self.lease_id = 0

    def _open(self) -> None:
        lease = OpenLease(duration_ms=self._duration_ms)
        opened = self._control.call(Command(open_lease=lease)).lease_opened
        check(opened.error_code, "a lease for this job")
        self.lease_id = opened.lease_id
        super()._open()

    def _renew(self) -> list[int]:
        lease = RenewLease(lease_id=self.lease_id)
        code = self._control.call(Command(renew_lease=lease)).lease_renewed.error_code
        return [code, *super()._renew()]

    def _give_back(self) -> None:
        super()._give_back()
        self._control.call(Command(release_lease=ReleaseLease(lease_id=self.lease_id)))


def hold_lost(held: str) -> StaleMetadataError:
    """Returns the error for a job that has lost its pin or lease, as `held` specifies."""
    return StaleMetadataError(
        f"this job was unable to reach the control plane for too long, and has lost its {held}: start the job "
        "again; collection will delete what it has written"
    )
