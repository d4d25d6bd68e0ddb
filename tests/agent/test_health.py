"""What an agent tells a supervisor of itself."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lacuna.agent.health import HealthServer, why_not_ready
from lacuna.agent.lease import NO_LEASE
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from tests.agent.harness import ScriptedControl, make_context, snapshot


@pytest.fixture
async def told() -> AsyncIterator[tuple[HealthServer, list[str]]]:
    """A server, and why its agent is not ready."""
    reasons: list[str] = []
    server = HealthServer(lambda: reasons[0] if reasons else "")
    await server.start("127.0.0.1", 0)
    yield server, reasons
    await server.stop()


async def ask(port: int, request: bytes) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer


async def get(port: int, path: str) -> tuple[int, str]:
    head, _, body = (await ask(port, f"GET {path} HTTP/1.1\r\n\r\n".encode())).partition(
        b"\r\n\r\n"
    )
    return int(head.split()[1]), body.decode().strip()


async def test_alive_and_ready(told: tuple[HealthServer, list[str]]) -> None:
    server, reasons = told
    assert await get(server.port, "/healthz") == await get(server.port, "/readyz") == (200, "ok")
    reasons.append("no lease")
    assert await get(server.port, "/readyz") == (503, "no lease")
    assert await get(server.port, "/healthz") == (200, "ok")
    assert (await get(server.port, "/"))[0] == 404


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01" + b"x" * 10_000, b"\r\n\r\n", b"POST / \r\n\r\n"]
)
async def test_others_are_sent_away(told: tuple[HealthServer, list[str]], request_: bytes) -> None:
    server, _ = told
    assert (await ask(server.port, request_))[:12] in (b"", b"HTTP/1.1 405")
    assert await get(server.port, "/healthz") == (200, "ok")


async def test_those_who_say_nothing_are_few(told: tuple[HealthServer, list[str]]) -> None:
    server, _ = told
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(32)]
    assert await ask(server.port, b"") == b""
    for _, writer in silent:
        writer.close()


async def test_why_an_agent_is_not_ready() -> None:
    """A lease, a session, and clients that are sent to it: each is needed."""
    control = ScriptedControl()
    context = make_context(control)
    assert "no lease" in why_not_ready(context)
    context.lease.lease_id = 7
    assert "no session" in why_not_ready(context)
    control.cluster.apply(snapshot())
    assert why_not_ready(context) == ""
    control.cluster.apply(ClusterDelta(version=2, has_agents=True, hidden_lease_ids=[7]))
    assert "other agents" in why_not_ready(context)
    context.lease.lease_id = NO_LEASE
    assert "no lease" in why_not_ready(context)
