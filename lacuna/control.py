"""Finding and opening a control plane from outside its process."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controlplane.client import ControlClient
from controlplane.client.grpc import GrpcClient, GrpcClientSettings
from lacuna.addresses import parse_address
from lacuna.errors import UserError

DEFAULT_DATA = Path("data")
ADDRESS_NAME = "control.address"
STORE_NAME = "store.url"
#: Somebody waits at a prompt; a busy machine may need seconds for a first answer.
_QUESTION = GrpcClientSettings(give_up_after=5.0)


@asynccontextmanager
async def connect(
    address: str, settings: GrpcClientSettings | None = None
) -> AsyncIterator[ControlClient]:
    """A client of the control plane at `address`, HOST:PORT or unix:PATH, once it has answered.

    Raises UserError, and ControlPlaneUnavailable with what to do where nothing answers.
    """
    if not address.startswith("unix:"):
        parse_address(address)
    client = GrpcClient(address, random.SystemRandom().random, settings)
    client.start()
    try:
        await client.cluster.ready()
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_control(address: str | None, data: Path | None) -> AsyncIterator[ControlClient]:
    """As `connect`, for a question: without an address, of the cluster that runs on a data folder."""
    folder = data or DEFAULT_DATA
    found = address or _address_in(folder)
    if not found:
        raise UserError(
            f"no cluster runs on the data folder {folder}: name that of a running `lacuna up` "
            "with --data, or its control plane with --control HOST:PORT"
        )
    async with connect(found, _QUESTION) as client:
        yield client


def leave(folder: Path, name: str, text: str) -> None:
    """Writes ADDRESS_NAME or STORE_NAME: who reads it meanwhile finds the old or the new, never an empty one."""
    written = folder / f".{name}"
    written.write_text(text)
    written.replace(folder / name)


def _address_in(folder: Path) -> str:
    """What the cluster that runs on a folder has left there; "" where none has, or none of ours."""
    try:
        return (folder / ADDRESS_NAME).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
