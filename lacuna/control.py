"""Finding and opening a control plane from outside its process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controlplane.client.grpc import GrpcClient

from controlplane.client import ControlClient, ControlPlaneUnavailable

DEFAULT_DATA = Path("data")
SOCKET_NAME = "control.sock"


def control_socket(data: Path) -> str:
    """The address of the control plane of an embedded cluster, for gRPC."""
    return f"unix:{(data / SOCKET_NAME).resolve()}"


@asynccontextmanager
async def open_control(address: str | None, data: Path | None) -> AsyncIterator[ControlClient]:
    """A client of the control plane at `address`, else of the cluster that runs on a data folder.

    Raises ControlPlaneUnavailable with what to do where nothing answers.
    """
    folder = data or DEFAULT_DATA
    if address is None and not (folder / SOCKET_NAME).exists():
        raise ControlPlaneUnavailable(
            f"no cluster runs on the data folder {folder}: name the folder of a running `lacuna up` "
            "with --data, or its control plane with --control HOST:PORT"
        )
    client = GrpcClient(address or control_socket(folder))
    try:
        await client.cluster.ready()
        yield client
    finally:
        await client.close()
