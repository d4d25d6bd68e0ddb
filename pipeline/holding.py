"""What a job holds while it runs: a pin on what it reads, and a lease to write under if it writes."""

import threading
from typing import Final, Self

from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease, RenewLease
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PinReads, UnpinReads
from pipeline.control import ControlPlane, check
from pipeline.errors import StaleMetadataError

#: A killed job's garbage and what it read stay for so long; so does a job without its control plane.
HOLD_SECONDS: Final = 600.0


class ReadHold:
    """A context manager: nothing that is live at its start is collected before its end.

    It is prolonged from a thread of its own, however long the job takes; `lost` is set where it has
    ended before, since the control plane was away for longer than `seconds`. Raises
    ControlPlaneUnavailable, CommandRefused, PipelineError.
    """

    #: What is lost with it, for the error.
    held = "pin"

    def __init__(self, control: ControlPlane, seconds: float = HOLD_SECONDS) -> None:
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
            return  # it ends by itself

    def check(self) -> None:
        """Raises StaleMetadataError where it was lost: what was read may be gone by now."""
        if self.lost.is_set():
            raise hold_lost(self.held)

    def confirm(self) -> None:
        """As `check`, asked of the control plane now; where that does not answer, what was heard counts."""
        self._prolong()
        self.check()

    def _open(self) -> None:
        pin = PinReads(duration_ms=self._duration_ms)
        reply = self._control.call(Command(pin_reads=pin)).reads_pinned
        check(reply.error_code, "pinning what is to be read")
        self._pin_id = reply.pin_id

    def _renew(self) -> list[int]:
        """Error codes."""
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
            return  # for a while it can do without; in the end it is told what is lost
        if any(code != ErrorCode.NONE for code in codes):
            self.lost.set()


class JobHold(ReadHold):
    """The same with a lease: `lease_id` is what the job's segments are written under."""

    held = "lease"

    def __init__(self, control: ControlPlane, seconds: float = HOLD_SECONDS) -> None:
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
    """The error of a job whose pin or lease has ended under it."""
    return StaleMetadataError(
        "this job was out of touch with the control plane for too long, and has lost its "
        f"{held}: start the job again; what it has written is garbage that collection removes"
    )
