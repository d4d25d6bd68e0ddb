"""Keeping objects in the bucket while tasks read them."""

from controlplane.errors import ErrorCode
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
    """Gives a pin back; one that has ended already is well."""
    if isinstance(metadata, ControlPlane):
        reply = metadata.call(Command(unpin_reads=UnpinReads(pin_id=pin_id))).reads_unpinned
        if reply.error_code != ErrorCode.PIN_EXPIRED:
            check(reply.error_code, "giving a pin back")
