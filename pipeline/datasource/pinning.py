"""Keeping objects in the bucket while tasks read them."""

from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PinReads, UnpinReads
from pipeline.control import ControlPlane, check
from pipeline.metadata import MetadataSource


def pin(metadata: MetadataSource, seconds: float) -> int | None:
    """What is live now stays for so long; the pin's id, None where nobody can be asked for one.

    To be called before the logs are looked at. With metadata from the bucket there is no pin: an
    object that was replaced stays for the cluster's grace period then.
    """
    if not isinstance(metadata, ControlPlane) or seconds <= 0:
        return None
    command = Command(pin_reads=PinReads(duration_ms=int(seconds * 1000)))
    reply = metadata.call(command).reads_pinned
    check(reply.error_code, "pinning what is to be read")
    return reply.pin_id


def unpin(metadata: MetadataSource, pin_id: int) -> None:
    """Gives a pin back. One that is not there any more is well: it has ended, or this was done before and
    the answer got lost.
    """
    if isinstance(metadata, ControlPlane):
        metadata.call(Command(unpin_reads=UnpinReads(pin_id=pin_id)))
