"""Finding and opening a control plane from outside its process."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from lacuna.base.addresses import parse_addresses
from lacuna.base.errors import UserError
from lacuna.controlplane.client import (
    ControlClient,
    ControlPlace,
    ControlPlaneUnavailable,
    made_of,
)
from lacuna.controlplane.client.grpc import GrpcClient
from lacuna.controlplane.client.session import SessionLimits

log = logging.getLogger("lacuna")

T = TypeVar("T")

DEFAULT_DATA = Path("data")
ADDRESS_NAME = "control.address"
STORE_NAME = "store.url"
#: Somebody is waiting at a prompt, but a busy machine may need seconds for its first answer.
_QUESTION = SessionLimits(give_up_after=5.0)
_PAUSE_SECONDS = 1.0
_TELL_SECONDS = 60.0


@asynccontextmanager
async def connect(
    place: ControlPlace, settings: SessionLimits | None = None
) -> AsyncIterator[ControlClient]:
    """Connects to the control plane at a place and waits for its first answer.

    Raises UserError for a malformed address and for TLS files, ControlPlaneUnavailable if nothing answers.
    """
    async with client_of(place, settings) as client:
        await client.cluster.ready()
        yield client


@asynccontextmanager
async def client_of(
    place: ControlPlace, settings: SessionLimits | None = None
) -> AsyncIterator[ControlClient]:
    """A client that looks for the control plane at a place, as `connect` does, and does not wait for it."""
    if not place.address.startswith("unix:"):
        parse_addresses(place.address)
    tls = made_of(place.tls)
    client = GrpcClient(place.address, random.SystemRandom().random, settings, tls=tls)
    client.start()
    try:
        yield client
    finally:
        await client.close()


async def until_answered(step: Callable[[], Awaitable[T]]) -> T:
    """Takes a step again and again until a control plane answers, and says once a minute why it still waits."""
    loop = asyncio.get_running_loop()
    tell_at = loop.time()
    while True:
        try:
            return await step()
        except ControlPlaneUnavailable as error:
            if loop.time() >= tell_at:
                tell_at = loop.time() + _TELL_SECONDS
                log.warning("%s; trying again until one answers", error)
        await asyncio.sleep(_PAUSE_SECONDS)


@asynccontextmanager
async def open_control(
    place: ControlPlace | None, data: Path | None
) -> AsyncIterator[ControlClient]:
    """Connects as `connect` does, but gives up after 5 seconds.

    Without a place, it looks up that of the cluster running on the data folder (`data/` by default). Raises
    UserError if none runs there.
    """
    async with connect(find_control(place, data), _QUESTION) as client:
        yield client


def find_control(place: ControlPlace | None, data: Path | None) -> ControlPlace:
    """The place, or without one that of the cluster running on the data folder (`data/` by default).

    Raises UserError if none runs there.
    """
    folder = data or DEFAULT_DATA
    found = place or ControlPlace(_address_in(folder))
    if not found.address:
        raise UserError(
            f"no cluster is running on the data folder {folder}: give the folder of a running `lacuna "
            "up` with --data, or the address of its control plane with --control HOST:PORT"
        )
    return found


def leave(folder: Path, name: str, text: str) -> None:
    """Writes `text` to the file `name` (ADDRESS_NAME or STORE_NAME) of a data folder, atomically.

    A concurrent reader sees the old content or the new, never an empty file.
    """
    written = folder / f".{name}"
    written.write_text(text)
    written.replace(folder / name)


def _address_in(folder: Path) -> str:
    """The address in the folder's address file, or "" if that file is missing or cannot be read as text."""
    try:
        return (folder / ADDRESS_NAME).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
