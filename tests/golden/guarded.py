"""A cluster with the users and ACLs of acls.py."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from tests.agent.plane import cluster
from tests.golden.acls import ADMIN, PASSWORD, USERS


async def _serve(folder: Path, port: asyncio.Queue[int], end: asyncio.Event) -> None:
    (folder / "password").write_text(PASSWORD)
    users = folder / "users.toml"
    users.write_text("".join(f'{each} = "file:{folder}/password"\n' for each in USERS))
    security = SecuritySettings(
        mechanisms="PLAIN",
        users_file=str(users),
        authorizer=STANDARD_AUTHORIZER,
        super_users=f"User:{ADMIN}",
    )
    listener = Listener("SASL", Protocol.SASL_PLAINTEXT)
    async with cluster(AgentSettings(listeners=(listener,)), security) as running:
        port.put_nowait(running.server.port)
        await end.wait()


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """Run the cluster in a thread. Yield its bootstrap address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    end: asyncio.Event = asyncio.Event()
    port: asyncio.Queue[int] = asyncio.Queue()
    serving = asyncio.run_coroutine_threadsafe(_serve(folder, port, end), loop)
    try:
        at = asyncio.run_coroutine_threadsafe(port.get(), loop).result(30)
        yield f"127.0.0.1:{at}"
    finally:
        loop.call_soon_threadsafe(end.set)
        serving.result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
