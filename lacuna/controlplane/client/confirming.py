"""Waits until the views include every change that any client has been told about."""

from lacuna.controlplane.client.protocol import ControlClient
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadPartitions


async def confirm(control: ControlClient) -> None:
    """Wait until the views include every change that the control plane acknowledged to anyone before this call.

    Each session receives changes separately, so a change acknowledged to another session may still be on its way to
    this one. The reply to an empty read arrives after all such changes (adr/0003). Raises what ControlClient.call
    raises.
    """
    await control.call(Command(read_partitions=ReadPartitions()))
