"""Odd frames of the oldest versions of Produce and Fetch: as kafka-python writes them, truncated, and invented."""

from typing import Any

from kafka.protocol.old.fetch import (
    FetchRequest_v0,
    FetchRequest_v1,
    FetchRequest_v2,
    FetchRequest_v3,
)
from kafka.protocol.old.produce import (
    ProduceRequest_v0,
    ProduceRequest_v1,
    ProduceRequest_v2,
)

from tests.agent.harness import RawClient, encode_request
from tests.agent.legacy.asking import body_of
from tests.agent.plane import cluster

_FETCHED = [("t", [(0, 5, 100), (1, 0, 100)]), ("u", [])]
_PRODUCED = [("t", [(0, b"set"), (1, b"")]), ("u", [(0, None)])]
REQUESTS: list[Any] = [
    ProduceRequest_v0(1, 9, _PRODUCED),
    ProduceRequest_v1(1, 9, _PRODUCED),
    ProduceRequest_v2(1, 9, _PRODUCED),
    FetchRequest_v0(-1, 1, 1, _FETCHED),
    FetchRequest_v1(-1, 1, 1, _FETCHED),
    FetchRequest_v2(-1, 1, 1, _FETCHED),
    FetchRequest_v3(-1, 1, 1, 1000, _FETCHED),
]


async def test_an_odd_frame_ends_its_connection_alone() -> None:
    """tests/agent/test_every_api.py sends such frames to the other APIs at each version."""
    async with cluster() as running:
        for request in REQUESTS:
            body = body_of(request)
            for odd in (body[:-1], b"\x7f" * 40, b"", body + b"\0"):
                client = await RawClient.connect(running.server.port)
                client.send(encode_request(request.API_KEY, request.API_VERSION, odd))
                assert await client.is_closed()
        client = await RawClient.connect(running.server.port)
        assert (await client.ask(18, 0)).error_code == 0
        await client.close()
        assert running.context.metrics.requests_failed == 0
