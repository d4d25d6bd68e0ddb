"""Keeps objects in the bucket while tasks read them."""

from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PinReads, UnpinReads
from lacuna.pipeline.control import ControlPlane, check
from lacuna.pipeline.metadata import MetadataSource


def pin(metadata: MetadataSource, seconds: float) -> int | None:
    """Keeps everything that is live now for this many seconds, and returns the pin's id, or None if there is no pin.

    Call it before the logs are read. With metadata from the bucket there is no pin: replaced objects then stay for the
    cluster's grace period only.
    """
    if not isinstance(metadata, ControlPlane) or seconds <= 0:
        return None
    command = Command(pin_reads=PinReads(duration_ms=int(seconds * 1000)))
    reply = metadata.call(command).reads_pinned
    check(reply.error_code, "pinning what is to be read")
    return reply.pin_id


def prolong(metadata: MetadataSource, pin_id: int, seconds: float) -> None:
    """Keeps a pin for this many seconds from now. It may have ended already, which its tasks will notice."""
    if isinstance(metadata, ControlPlane):
        renewed = PinReads(duration_ms=int(seconds * 1000), pin_id=pin_id)
        metadata.call(Command(pin_reads=renewed))


def unpin(metadata: MetadataSource, pin_id: int) -> None:
    """Ends a pin. It may have expired already, or been ended by an earlier call whose answer was lost."""
    if isinstance(metadata, ControlPlane):
        metadata.call(Command(unpin_reads=UnpinReads(pin_id=pin_id)))
