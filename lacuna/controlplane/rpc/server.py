"""Listens for gRPC, and has a handler answer each call."""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from lacuna.controlplane.rpc.call import Call, CallError, Headers, Status
from lacuna.controlplane.rpc.frames import Code
from lacuna.controlplane.rpc.link import Link
from lacuna.controlplane.rpc.tls import ControlTls

_log = logging.getLogger("lacuna.controlplane")

M = TypeVar("M", bound=Message)

_BACKLOG: Final = 1024
#: A call that its client resets may go on for a moment, so the calls of the connections do not bound these.
_MAX_TASKS: Final = 10_000
_HANDSHAKE_SECONDS: Final = 10.0

#: Answers one call: reads its requests and writes its responses. The call ends with OK when it returns, and with the
#: status of a CallError that it raises.
Handler = Callable[[Call], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """`max_message` bounds a request, in bytes. A client that is silent for `ping_after` seconds is pinged."""

    max_message: int = 64 << 20
    ping_after: float = 5.0


class RpcServer:
    """Serves `handlers`, by the path of their method, as in /package.Service/Method. `tls` is for addresses of TCP."""

    def __init__(
        self, handlers: Mapping[str, Handler], limits: RpcLimits, tls: ControlTls | None = None
    ) -> None:
        self._handlers = handlers
        self._tls = tls
        self._limits = limits
        self._links: dict[Link, None] = {}
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._listener: asyncio.Server | None = None
        self._is_stopped = False

    async def start(self, address: str) -> str:
        """Listen on `host:port` (0 for any free port) or `unix:path`, and return the address.

        A Unix socket is its owner's alone. Raises OSError if the address cannot be used.
        """
        loop = asyncio.get_running_loop()
        if address.startswith("unix:"):
            bound = _private_socket(address.removeprefix("unix:"))
            self._listener = await loop.create_unix_server(
                self._accept, sock=bound, backlog=_BACKLOG
            )
            return address
        host, _, port = address.rpartition(":")
        self._listener = await loop.create_server(
            self._accept,
            host.strip("[]"),
            int(port),
            backlog=_BACKLOG,
            ssl=None if self._tls is None else self._tls.server,
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_SECONDS,
        )
        return f"{host}:{self._listener.sockets[0].getsockname()[1]}"

    async def stop(self, grace: float) -> None:
        """Take no more calls, let those under way go on for `grace` seconds, and close the connections."""
        self._is_stopped = True
        if self._listener is not None:
            self._listener.close()
        for link in list(self._links):
            link.leave()
        if self._tasks and grace:
            await asyncio.wait(list(self._tasks), timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        for link in list(self._links):
            link.close("the server was stopped")

    def _accept(self) -> Link:
        return Link(
            max_message=self._limits.max_message,
            ping_after=self._limits.ping_after,
            on_call=self._begin,
            on_made=self._made,
            on_lost=lambda link: self._links.pop(link, None),
        )

    def _made(self, link: Link) -> None:
        self._links[link] = None
        if self._is_stopped:  # it was accepted before
            link.close("the server was stopped")

    def _begin(self, call: Call, headers: Headers) -> None:
        if len(self._tasks) >= _MAX_TASKS:
            call.cancel(Code.REFUSED_STREAM, "too many calls are under way")
            return
        path = dict(headers).get(":path", "")
        handler = self._handlers.get(path, partial(_refuse, path))
        task = asyncio.get_running_loop().create_task(
            _answer(call, handler), name=f"call of {path}"
        )
        self._tasks[task] = call
        task.add_done_callback(lambda task: self._tasks.pop(task, None))


def _private_socket(path: str) -> socket.socket:
    """Return a Unix socket that only processes of its owner can connect to. Raises OSError."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)  # of a process that has crashed, as asyncio does
    except FileNotFoundError:
        pass
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)  # a chmod afterwards would leave a moment
    try:
        bound.bind(path)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    os.chmod(path, 0o600)
    return bound


async def only_request(call: Call, kind: type[M]) -> M:
    """Return the request of a call that has one. Raises CallError."""
    try:
        return kind.FromString(await call.read_one())
    except DecodeError as error:
        raise CallError(Status.INVALID_ARGUMENT, f"this is not a {kind.__name__}") from error


async def _answer(call: Call, handler: Handler) -> None:
    call.answer()
    try:
        await handler(call)
        call.finish(Status.OK, "")
    except CallError as error:
        call.finish(error.status, str(error))
    except asyncio.CancelledError:
        call.cancel(Code.CANCEL, "the server was stopped")
        raise
    except Exception as error:
        _log.exception("a call failed unexpectedly; please report it")
        call.finish(Status.INTERNAL, repr(error))


async def _refuse(path: str, _call: Call) -> None:
    raise CallError(Status.UNIMPLEMENTED, f"there is no method {path}")
