"""`--health`: an HTTP server that tells a supervisor whether an agent serves."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lacuna.addresses import parse_address
from lacuna.agent.context import AgentContext
from lacuna.agent.health import HealthServer, why_not_ready
from lacuna.agents import ListenError


class Readiness:
    """Whether an agent serves clients; it does not before it has a `context`."""

    def __init__(self) -> None:
        self.context: AgentContext | None = None

    def why_not(self) -> str:
        """The reason, or "" if it serves."""
        if self.context is None:
            return "the agent is starting: it has no answer yet from the control plane or its store"
        return why_not_ready(self.context)


@asynccontextmanager
async def health_served(
    address: str | None, readiness: Readiness, *, reuse_port: bool = False
) -> AsyncIterator[None]:
    """Serves health checks of an agent at `address` (HOST:PORT) during the block; does nothing for None.

    Raises UserError for a malformed address, ListenError if it cannot listen there.
    """
    if address is None:
        yield
        return
    host, port = parse_address(address)
    server = HealthServer(readiness.why_not)
    try:
        await server.start(host, port, reuse_port=reuse_port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ListenError(
            f"cannot listen on {address}: {reason}; choose another address with --health"
        ) from error
    try:
        yield
    finally:
        await server.stop()
