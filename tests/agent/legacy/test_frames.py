"""Odd frames of the versions that are read by tables: a value or MalformedRequest, and no memory for lies."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.old.admin import (
    CreateTopicsRequest_v0,
    CreateTopicsRequest_v1,
    DeleteTopicsRequest_v0,
    DescribeConfigsRequest_v0,
)
from kafka.protocol.old.commit import (
    OffsetCommitRequest_v0,
    OffsetCommitRequest_v1,
    OffsetFetchRequest_v0,
)
from kafka.protocol.old.fetch import (
    FetchRequest_v0,
    FetchRequest_v1,
    FetchRequest_v2,
    FetchRequest_v3,
)
from kafka.protocol.old.list_offsets import ListOffsetsRequest_v0
from kafka.protocol.old.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest_v0,
    OffsetForLeaderEpochRequest_v1,
)
from kafka.protocol.old.produce import (
    ProduceRequest_v0,
    ProduceRequest_v1,
    ProduceRequest_v2,
)

from lacuna.agent.api import MalformedRequest
from lacuna.agent.apis import discover
from tests.agent.harness import RawClient, encode_request
from tests.agent.legacy.asking import DescribeLogDirsRequest_v0, body_of
from tests.agent.plane import cluster

_COMMITS = [("t", [(0, 1, "m"), (1, 2, None)])]
_COMMITS_V1 = [("t", [(0, 1, 5, "m"), (1, 2, 5, None)])]
_TOPICS = [("t", 1, 1, [(0, [1, 2])], [("a", "b"), ("c", None)])]
_FETCHED = [("t", [(0, 5, 100), (1, 0, 100)]), ("u", [])]
_PRODUCED = [("t", [(0, b"set"), (1, b"")]), ("u", [(0, None)])]
REQUESTS = [
    ProduceRequest_v0(1, 9, _PRODUCED),
    ProduceRequest_v1(1, 9, _PRODUCED),
    ProduceRequest_v2(1, 9, _PRODUCED),
    FetchRequest_v0(-1, 1, 1, _FETCHED),
    FetchRequest_v1(-1, 1, 1, _FETCHED),
    FetchRequest_v2(-1, 1, 1, _FETCHED),
    FetchRequest_v3(-1, 1, 1, 1000, _FETCHED),
    ListOffsetsRequest_v0(-1, [("t", [(0, -1, 5)])]),
    OffsetCommitRequest_v0("g", _COMMITS),
    OffsetCommitRequest_v1("g", 1, "m", _COMMITS_V1),
    OffsetFetchRequest_v0("g", [("t", [0, 1, 2])]),
    CreateTopicsRequest_v0(_TOPICS, 9),
    CreateTopicsRequest_v1(_TOPICS, 9, True),
    DeleteTopicsRequest_v0(["t", "u"], 9),
    DescribeConfigsRequest_v0([(2, "t", ["a"]), (2, "u", None)]),
    DescribeLogDirsRequest_v0([("t", [0, 1])]),
    OffsetForLeaderEpochRequest_v0([("t", [(0, 0)])]),
    OffsetForLeaderEpochRequest_v1([("t", [(0, 0)])]),
]
NAMES = [type(request).__name__ for request in REQUESTS]
REGISTRY = discover()


def read(request: Any, body: bytes) -> Any:
    """As the agent reads it."""
    api = REGISTRY.get(request.API_KEY, request.API_VERSION)
    assert api is not None
    return api.read(memoryview(body), request.API_VERSION)


@pytest.mark.parametrize("request_", REQUESTS, ids=NAMES)
def test_whatever_is_cut_off_is_malformed(request_: Any) -> None:
    body = body_of(request_)
    read(request_, body)
    for size in range(len(body)):
        with pytest.raises(MalformedRequest):
            read(request_, body[:size])


@pytest.mark.parametrize("request_", REQUESTS, ids=NAMES)
def test_sizes_and_counts_that_lie_take_no_memory(request_: Any) -> None:
    """Every four bytes of a request in turn, and every two, are as large or as small as they get."""
    body = body_of(request_)
    odd = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x7f", b"\x7f\xff"]
    tracemalloc.start()
    try:
        for at in range(len(body)):
            for value in odd:
                try:
                    read(request_, body[:at] + value + body[at + len(value) :])
                except MalformedRequest:
                    continue
        # Other threads, of a cluster that the tests share, allocate as well.
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@given(which=st.sampled_from(REQUESTS), body=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_malformed(which: Any, body: bytes) -> None:
    try:
        read(which, body)
    except MalformedRequest:
        return


@pytest.mark.parametrize("request_", [REQUESTS[0], REQUESTS[6]], ids=[NAMES[0], NAMES[6]])
def test_nothing_may_follow_records_and_fetches(request_: Any) -> None:
    """As from v3 and v4 on; elsewhere what follows is not looked at."""
    with pytest.raises(MalformedRequest):
        read(request_, body_of(request_) + b"\0")


async def test_an_odd_frame_ends_its_connection_alone() -> None:
    async with cluster() as running:
        for request in REQUESTS:
            body = body_of(request)
            for odd in (body[:-1], b"\x7f" * 40, b""):
                client = await RawClient.connect(running.server.port)
                client.send(encode_request(request.API_KEY, request.API_VERSION, odd))
                assert await client.is_closed()
        client = await RawClient.connect(running.server.port)
        assert (await client.ask(18, 0)).error_code == 0
        await client.close()
        assert running.context.metrics.requests_failed == 0
