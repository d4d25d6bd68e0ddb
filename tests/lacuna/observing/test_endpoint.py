"""Tests what a process reports about itself over HTTP."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lacuna.agent.health import why_not_ready
from lacuna.agent.lease import NO_LEASE
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.observing.endpoint import Endpoint, Observed
from lacuna.observing.families import Families, render
from lacuna.observing.metric import Metric, counters, histograms
from tests.agent.harness import ScriptedControl, make_context, snapshot
from tests.simulation.loop import on_virtual_time


@pytest.fixture
async def told() -> AsyncIterator[tuple[Endpoint, list[str]]]:
    """Yield an endpoint, and the reasons why its process is not ready."""
    reasons: list[str] = []
    observed = Observed("starting")
    assert observed.why_not() == "starting"
    observed.becomes(lambda: reasons[0] if reasons else "")

    async def add(families: Families) -> None:
        await families.add([counters("things", "Things.", ("kind",), lambda of: [("a", of)])], 3)

    observed.shows(add)
    server = Endpoint(observed)
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


async def test_alive_and_ready(told: tuple[Endpoint, list[str]]) -> None:
    server, reasons = told
    assert await get(server.port, "/healthz") == await get(server.port, "/readyz") == (200, "ok")
    reasons.append("no lease")
    assert await get(server.port, "/readyz") == (503, "no lease")
    assert await get(server.port, "/healthz") == (200, "ok")
    assert (await get(server.port, "/"))[0] == 404


async def test_metrics_are_text_that_prometheus_reads(told: tuple[Endpoint, list[str]]) -> None:
    """The format is Prometheus's own, or OpenMetrics for clients that accept it."""
    server, _ = told
    for accept, content_type, end in (
        ("*/*", b"text/plain; version=", ""),
        ("application/openmetrics-text;version=1.0.0", b"application/openmetrics-text", "# EOF\n"),
    ):
        request = f"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"
        head, _, body = (await ask(server.port, request.encode())).partition(b"\r\n\r\n")
        assert b"200 OK" in head
        assert content_type in head
        assert f"Content-Length: {len(body)}".encode() in head
        assert body.decode().endswith(end)
        assert 'things_total{kind="a"} 3.0\n' in body.decode()


async def test_buckets_add_up() -> None:
    """Each bucket of a histogram includes the lower ones, and the last one includes everything."""
    families = Families()
    took: Metric[float] = histograms(
        "took", "Took.", ("api",), (0.5, 1.0), lambda total: [(("a",), (1, 2, 3), total)]
    )
    await families.add([took], 9.5)
    text, _ = render(families.collect(), "")
    assert [line for line in text.decode().splitlines() if not line.startswith("#")] == [
        'took_bucket{api="a",le="0.5"} 1.0',
        'took_bucket{api="a",le="1.0"} 3.0',
        'took_bucket{api="a",le="+Inf"} 6.0',
        'took_count{api="a"} 6.0',
        'took_sum{api="a"} 9.5',
    ]


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01" + b"x" * 10_000, b"\r\n\r\n", b"POST / \r\n\r\n"]
)
async def test_others_are_sent_away(told: tuple[Endpoint, list[str]], request_: bytes) -> None:
    server, _ = told
    assert (await ask(server.port, request_))[:12] in (b"", b"HTTP/1.1 405")
    assert await get(server.port, "/healthz") == (200, "ok")


async def test_those_who_say_nothing_are_few(told: tuple[Endpoint, list[str]]) -> None:
    server, _ = told
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(32)]
    assert await ask(server.port, b"") == b""
    for _, writer in silent:
        writer.close()


async def test_why_an_agent_is_not_ready() -> None:
    """To be ready, an agent needs a lease, a session, and clients that are directed to it."""
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


@on_virtual_time
async def test_an_agent_whose_store_fails_is_not_ready_and_says_why() -> None:
    """Its log gives the same reason. Neither a single failure nor a single success among failures changes the state."""
    control = ScriptedControl()
    context = make_context(control)
    context.lease.lease_id = 7
    control.cluster.apply(snapshot())
    health = context.produce.flusher._store_health

    def fails() -> None:
        health.failed("no space left below /o: free some", asyncio.get_running_loop().time())

    fails()
    assert why_not_ready(context) == ""
    health.succeeded()
    await asyncio.sleep(29)
    assert why_not_ready(context) == ""
    for _ in range(3):
        fails()
        health.succeeded()
        await asyncio.sleep(3)
    assert why_not_ready(context) == "records cannot be stored: no space left below /o: free some"
    await asyncio.sleep(31)
    assert why_not_ready(context) == ""
    fails()
    await asyncio.sleep(40)
    assert "no space left" in why_not_ready(context)
