"""Finding and opening a control plane from outside its process."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controlplane.client import ControlClient, ControlPlaneUnavailable
from controlplane.client.grpc import GrpcClient

DEFAULT_DATA = Path("data")
ADDRESS_NAME = "control.address"


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[ControlClient]:
    """A client of the control plane at `address`, HOST:PORT or unix:PATH, once it has answered.

    Raises ControlPlaneUnavailable with what to do where nothing answers.
    """
    client = GrpcClient(address, random.SystemRandom().random)
    client.start()
    try:
        await client.cluster.ready()
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_control(address: str | None, data: Path | None) -> AsyncIterator[ControlClient]:
    """As `connect`; without an address, of the cluster that runs on a data folder."""
    folder = data or DEFAULT_DATA
    try:
        found = address or (folder / ADDRESS_NAME).read_text()
    except FileNotFoundError:
        raise ControlPlaneUnavailable(
            f"no cluster runs on the data folder {folder}: name the folder of a running "
            "`lacuna up` with --data, or its control plane with --control HOST:PORT"
        ) from None
    async with connect(found) as client:
        yield client
