"""Tests a server that is started by its first connection."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from lacuna.controlplane.doorstep import Doorstep

GUESTS = 5


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def echoed(path: str, text: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "c.sock")


async def test_who_comes_before_it_is_open_is_served_like_who_comes_later(path: str) -> None:
    opened: list[asyncio.Server] = []

    async def open_at(place: str) -> None:
        opened.append(await asyncio.start_unix_server(echo, place))

    doorstep = Doorstep(path, open_at)
    await doorstep.start()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not opened
    texts = [b"%d\n" % number for number in range(GUESTS)]
    assert await asyncio.gather(*(echoed(path, text) for text in texts)) == texts
    (server,) = opened
    assert not os.path.exists(f"{path}~")
    await doorstep.stop()
    assert await echoed(path, b"later\n") == b"later\n"
    server.close()


async def test_it_ends_before_anybody_came(path: str) -> None:
    async def open_at(_: str) -> None:
        raise AssertionError

    doorstep = Doorstep(path, open_at)
    await doorstep.start()
    await doorstep.stop()
    with pytest.raises(OSError):  # noqa: PT011 - refused, or gone
        await asyncio.open_unix_connection(path)


async def test_it_ends_while_somebody_waits(path: str) -> None:
    began = asyncio.Event()

    async def open_at(_: str) -> None:
        began.set()
        await asyncio.Event().wait()

    doorstep = Doorstep(path, open_at)
    await doorstep.start()
    guest = asyncio.create_task(echoed(path, b"x\n"))
    await began.wait()
    await doorstep.stop()
    assert await guest == b""
