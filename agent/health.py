"""Tells supervisors and orchestrators over HTTP whether an agent serves.

GET /healthz   200 while the process answers
GET /readyz    200 while Kafka clients are served: the agent has a lease, a session with the control plane,
               and is not hidden; else 503 with the reason
"""

import asyncio
from collections.abc import Callable
from typing import Final

from lacuna.agent.context import AgentContext
from lacuna.agent.lease import NO_LEASE

_MOST_CONNECTIONS: Final = 32
_MOST_BYTES: Final = 4096
_SECONDS: Final = 5.0
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}


def why_not_ready(context: AgentContext) -> str:
    """Return why Kafka clients are not served now, or "" if they are."""
    cluster = context.control.cluster
    if context.lease.lease_id == NO_LEASE:
        return "the agent has no lease from the control plane"
    if not cluster.is_current:
        return "the agent has no session with the control plane"
    if context.lease.lease_id in cluster.hidden_lease_ids:
        return "clients are sent to other agents, until the session is back or because the agent is stopping"
    return ""


class HealthServer:
    """Answers one request per connection; connections beyond 32 at once are closed."""

    def __init__(self, why_not: Callable[[], str]) -> None:
        self._why_not = why_not
        self._server: asyncio.Server | None = None
        self._open = 0
        self.port = 0

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Listen on `host`:`port`; port 0 means any, and `port` then says which. Raises OSError.

        `reuse_port` lets several workers listen on one port; the one that gets a request answers for itself."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_MOST_BYTES, reuse_port=reuse_port or None
        )
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has left, is too slow or speaks no HTTP: there is nobody to tell
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "only GET is supported")
        if path == b"/healthz":
            return _response(200, "ok", has_body=method == b"GET")
        if path == b"/readyz":
            why_not = self._why_not()
            code = 503 if why_not else 200
            return _response(code, why_not or "ok", has_body=method == b"GET")
        return _response(404, "not found: use /healthz or /readyz", has_body=method == b"GET")


def _response(code: int, text: str, *, has_body: bool = True) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")
