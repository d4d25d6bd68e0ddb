"""Views that have caught up with what others were answered."""

from controlplane.client.protocol import ControlClient
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions


async def confirm(control: ControlClient) -> None:
    """Afterwards the views have every change that anybody was answered before the call.

    Each session hears of changes on its own; what another one was answered may be on its way to this one. The reply
    to an empty read comes behind all of that (adr/0003). Raises as ControlClient.call.
    """
    await control.call(Command(read_partitions=ReadPartitions()))
