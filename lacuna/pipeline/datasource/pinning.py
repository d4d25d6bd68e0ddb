"""Keeps objects in the bucket while tasks read them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.client import CommandRefused, ControlPlace, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PinReads, UnpinReads
from lacuna.pipeline.control import JobClient, check
from lacuna.pipeline.holding import HOLD_SECONDS
from lacuna.pipeline.metadata import MetadataSource

#: How often a worker extends the pin of a batch that it reads, in seconds.
_EVERY: Final = HOLD_SECONDS / 5
_MAX_KNOWN: Final = 64


@dataclass(frozen=True, slots=True)
class Hold:
    """The pins of a batch: `brief`, which its tasks extend, and `full`, in case they cannot reach the control plane.

    Tasks that can reach it end the full pin. If the driver is killed, objects are then kept for HOLD_SECONDS after the
    last task instead of for an hour.
    """

    place: ControlPlace
    cluster_id: str
    brief: int
    full: int

    def prolong(self) -> None:
        """Extends the brief pin and ends the full one. If the brief pin has already ended, the full one is kept.

        Raises ControlPlaneUnavailable, CommandRefused, UserError.
        """
        with JobClient(self.place) as control:
            # In an executor, an address such as localhost may lead to a different cluster.
            is_kept = control.cluster_id == self.cluster_id and prolong(
                control, self.brief, HOLD_SECONDS
            )
            if is_kept:
                unpin(control, self.full)


def pin(metadata: MetadataSource, seconds: float) -> int | None:
    """Pins everything that is live now for this many seconds, and returns the id of the pin.

    Must be called before the logs are read. Metadata from the bucket cannot be pinned. In that case, None is returned,
    and replaced objects are kept only for the cluster's grace period.
    """
    if not isinstance(metadata, JobClient) or seconds <= 0:
        return None
    command = Command(pin_reads=PinReads(duration_ms=int(seconds * 1000)))
    reply = metadata.call(command).reads_pinned
    check(reply.error_code, "pinning the objects to read")
    return reply.pin_id


def prolong(metadata: MetadataSource, pin_id: int, seconds: float) -> bool:
    """Extends a pin to this many seconds from now. Returns False if it has already ended."""
    if not isinstance(metadata, JobClient):
        return False
    renewed = PinReads(duration_ms=int(seconds * 1000), pin_id=pin_id)
    reply = metadata.call(Command(pin_reads=renewed)).reads_pinned
    return reply.error_code == ErrorCode.NONE


def unpin(metadata: MetadataSource, pin_id: int) -> None:
    """Ends a pin. It may have expired, or have been ended by an earlier call that got no reply."""
    if isinstance(metadata, JobClient):
        metadata.call(Command(unpin_reads=UnpinReads(pin_id=pin_id)))


@contextmanager
def held(hold: Hold | None) -> Iterator[None]:
    """Extends a batch's pins, in the background, while one of its tasks reads.

    A worker that runs many short tasks extends them as often as one that runs a single long task.
    """
    if hold is None:
        yield
        return
    end = threading.Event()
    threading.Thread(target=_prolong_on, args=(hold, end), name="pin", daemon=True).start()
    try:
        yield
    finally:
        end.set()


#: When this process last extended each of the latest holds (monotonic time in seconds).
_prolonged: Final[dict[Hold, float]] = {}


def _prolong_on(hold: Hold, end: threading.Event) -> None:
    while not end.wait(max(0.0, _prolonged.get(hold, -_EVERY) + _EVERY - time.monotonic())):
        _prolonged.pop(hold, None)
        _prolonged[hold] = time.monotonic()
        while len(_prolonged) > _MAX_KNOWN:
            del _prolonged[next(iter(_prolonged))]
        with suppress(ControlPlaneUnavailable, CommandRefused, UserError):  # tried again later
            hold.prolong()
