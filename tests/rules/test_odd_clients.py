"""Tests hostile or unusual clients over the wire, which affect only their own connection (S11, S13, S21, S26).

This module covers Produce, Fetch, JoinGroup and SyncGroup. tests/agent/test_every_api.py covers all other APIs.
"""

import logging
import resource
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.agent.registry import response_header_version
from lacuna.testing import Cluster
from tests.agent.harness import encode_request, read_answer
from tests.agent.requests import requests
from tests.agent.test_every_api import APIS as OTHERS
from tests.clients.batch import batch
from tests.clients.hurry import keep_leases
from tests.clients.probing import fetched
from tests.clients.wire import ClosedError, Connection
from tests.messages import REQUESTS, encode_body, names, nested, request
from tests.rules.longest import LONG, LONGEST

PRODUCE, FETCH, JOIN, SYNC = 0, 1, 11, 14
RANGES = {PRODUCE: (3, 13), FETCH: (4, 18), JOIN: (0, 9), SYNC: (0, 5)}
VERSIONS = [
    (key, version) for key, (low, high) in RANGES.items() for version in range(low, high + 1)
]
MEBIBYTE = 1 << 20
KEEP = {"retention.ms": "-1"}  # the timestamps of the batches are those of another year
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One agent, the topic t that arbitrary requests often name, and one with a thousand partitions."""
    with Cluster() as running:
        keep_leases(running)
        running.create_topic("t", 2, KEEP)
        running.create_topic("wide", 1000, KEEP)
        yield running


@pytest.fixture(autouse=True)
def _no_mistake_of_ours(cluster: Cluster) -> Iterator[None]:
    """Check that after each test, the next client is served and no internal error has been logged."""
    metrics = cluster.embedded.agents[0].context.metrics
    before = metrics.requests_failed
    yield
    assert metrics.requests_failed == before
    with Connection(cluster.bootstrap) as connection:
        assert connection.call("api_versions", 0)["error_code"] == 0


def _topic_id(cluster: Cluster, name: str) -> uuid.UUID:
    return uuid.UUID(bytes=cluster.embedded.control.cluster.topics_by_name[name].topic_id)


def _tamed(cluster: Cluster, request: Any, key: int) -> Any:
    """Return the same request, changed so that it is answered soon."""
    if key == PRODUCE:
        return request._replace(acks=request.acks or 1)
    if key == FETCH:
        return request._replace(max_wait_ms=1)
    group_id = request.group_id and f"group-{uuid.uuid4()}"  # nobody else, so nobody to wait for
    return request._replace(group_id=group_id)


def _ask(connection: Connection, key: int, version: int, body: bytes) -> bytes:
    connection.send_bytes(encode_request(key, version, body, 5))
    return connection.receive_frame()


def test_the_others_are_tested_elsewhere() -> None:
    """Together, the tests draw random requests for every supported API."""
    assert OTHERS.keys().isdisjoint(RANGES)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_request_is_answered(
    cluster: Cluster, key: int, version: int, data: st.DataObject
) -> None:
    """Several well-formed requests on one connection each get a readable answer."""
    asked = data.draw(st.lists(requests(key, version), min_size=1, max_size=3))
    with Connection(cluster.bootstrap) as connection:
        for request in asked:
            body = encode_body(key, version, _tamed(cluster, request, key))
            frame = _ask(connection, key, version, body)
            assert struct.unpack_from(">i", frame) == (5,)
            read_answer(frame, key, version)


def _closed_with(connection: Connection, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines about a connection, once the server has closed it."""
    host, port = connection.socket.getsockname()
    with pytest.raises(ClosedError):
        connection.receive_frame()
    return [line for line in caplog.messages if f"{host}:{port}" in line]


@pytest.mark.parametrize("key", RANGES)
def test_a_truncated_frame_closes_its_connection_with_one_line(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, key: int
) -> None:
    """The frame claims to be complete, but its body ends early. The test uses the oldest and the newest version."""
    for version in RANGES[key]:
        body = _well_formed(cluster, key, version)
        for cut in {0, 1, len(body) // 2, len(body) - 1}:
            with Connection(cluster.bootstrap) as connection:
                connection.send_bytes(encode_request(key, version, body[:cut]))
                lines = _closed_with(connection, caplog)
            assert len(lines) == 1, lines
            assert "closed" in lines[0]
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def _well_formed(cluster: Cluster, key: int, version: int) -> bytes:
    found: list[bytes] = []

    @settings(
        max_examples=1,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(key, version))
    def draw(asked: Any) -> None:
        found.append(encode_body(key, version, _tamed(cluster, asked, key)))

    draw()
    return found[0]


def test_absurd_lengths_take_no_memory() -> None:
    """Array lengths of 2^31-1 and negative ones anywhere in a request are rejected from the frame alone."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rules.absurd_counts"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:2000]
    assert int(done.stdout) > 10_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_frames_that_only_claim_to_be_large_take_no_memory(cluster: Cluster) -> None:
    """Three connections announce 100 MiB each and send a few bytes.

    More connections would reach the agent's limit: see `max_stall_ms` and its test.
    """
    before = _resident_bytes()
    connections = [Connection(cluster.bootstrap) for _ in range(3)]
    for connection in connections:
        connection.send_bytes(struct.pack(">ihh", 100 * MEBIBYTE, PRODUCE, 9) + bytes(1000))
    with Connection(cluster.bootstrap) as other:
        assert other.call("api_versions", 0)["error_code"] == 0
    assert _resident_bytes() - before < 100 * MEBIBYTE
    for connection in connections:
        connection.close()


def test_s13_limits_offsets_and_waits_that_make_no_sense(cluster: Cluster) -> None:
    """Huge and negative sizes get an immediate answer, and a negative offset is out of range."""
    topic = cluster.create_topic("limits", 1, KEEP)
    with Connection(cluster.bootstrap) as connection:
        connection.call("produce", 9, **_produce(topic, [(0, batch([b"v"]))]))
        for max_bytes in (2**31 - 1, 0, -1, -(2**31)):
            for partition_max_bytes in (2**31 - 1, 0, -(2**31)):
                for offset, code, has_records in (
                    (0, 0, True),
                    (-1, 1, False),
                    (2**63 - 1, 1, False),
                ):
                    asked = [(0, offset, partition_max_bytes)]
                    fields = _fetch(topic, asked, max_bytes=max_bytes, max_wait_ms=-(2**31))
                    (answer,) = connection.call("fetch", 12, **fields)["responses"][0]["partitions"]
                    assert answer["error_code"] == code
                    assert bool(answer["records"]) == has_records


def _produce(topic: str, partitions: list[tuple[int, bytes]]) -> dict[str, Any]:
    data = [{"index": index, "records": records} for index, records in partitions]
    return {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": data}]}


def _fetch(
    topic: str,
    partitions: list[tuple[int, int, int]],
    max_bytes: int = 1 << 30,
    max_wait_ms: int = 0,
) -> dict[str, Any]:
    asked = [fetched(offset, index, limit) for index, offset, limit in partitions]
    return {
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": 1,
        "topics": [{"topic": topic, "partitions": asked}],
    }


def test_thousands_of_partitions_in_one_request(cluster: Cluster) -> None:
    """S11, S13: 3000 partitions, 1000 of which exist, are written and read, and each has its own answer."""
    partitions = [(index, batch([str(index).encode()])) for index in range(3000)]
    with Connection(cluster.bootstrap) as connection:
        answer = connection.call("produce", 9, **_produce("wide", partitions))
        written = answer["responses"][0]["partition_responses"]
        assert [each["error_code"] for each in written] == [0] * 1000 + [3] * 2000
        asked = [(index, 0, MEBIBYTE) for index in range(3000)]
        answer = connection.call("fetch", 12, **_fetch("wide", asked))
        read = answer["responses"][0]["partitions"]
        assert [each["error_code"] for each in read] == [0] * 1000 + [3] * 2000
        assert all(each["high_watermark"] == 1 for each in read[:1000])
        assert all(str(i).encode() in bytes(each["records"]) for i, each in enumerate(read[:1000]))


def test_one_partition_named_a_thousand_times(cluster: Cluster) -> None:
    """Produce answers every mention, Fetch answers the partition once, and the connection stays open."""
    topic = cluster.create_topic("again", 1, KEEP)
    with Connection(cluster.bootstrap) as connection:
        partitions = [(0, batch([str(number).encode()])) for number in range(1000)]
        answer = connection.call("produce", 9, **_produce(topic, partitions))
        written = answer["responses"][0]["partition_responses"]
        assert [each["base_offset"] for each in written] == list(range(1000))
        answer = connection.call("fetch", 12, **_fetch(topic, [(0, 7, 100)] * 1000))
        assert {each["partition_index"] for each in answer["responses"][0]["partitions"]} == {0}


@pytest.mark.parametrize(("api", "version", "fields"), LONGEST, ids=lambda value: str(value)[:20])
def test_the_longest_strings_there_are(
    cluster: Cluster, api: str, version: int, fields: dict[str, Any]
) -> None:
    """Before flexible versions, a string in an answer has the same limit, so a message cannot repeat them."""
    with Connection(cluster.bootstrap) as connection:
        connection.call(api, version, **fields)


@pytest.mark.parametrize("version", range(10))
def test_s26_the_longest_names_of_a_member(cluster: Cluster, version: int) -> None:
    """A member id includes the client's own name."""
    fields: dict[str, Any] = {
        "group_id": f"{version}{LONG[1:]}",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": LONG,
        "protocol_type": LONG,
        "reason": LONG,
    }
    known = names(REQUESTS[JOIN].body, version)
    protocol = nested(JOIN, version, "JoinGroupRequestProtocol", name=LONG, metadata=b"")
    fields = {name: value for name, value in fields.items() if name in known}
    asked = request(JOIN, version, protocols=(protocol,), **fields)
    with Connection(cluster.bootstrap) as connection:
        frame = encode_request(JOIN, version, encode_body(JOIN, version, asked), 5, LONG)
        connection.send_bytes(frame)
        answer: Any = read_answer(connection.receive_frame(), JOIN, version)
    assert answer.error_code in (0, 79), "joined, or told its id first"
    assert answer.member_id


def test_a_header_of_an_answer_fits_the_request(cluster: Cluster) -> None:
    """Correlation ids are returned unchanged, even extreme ones."""
    for correlation_id in (0, -1, 2**31 - 1, -(2**31)):
        with Connection(cluster.bootstrap) as connection:
            connection.send_bytes(encode_request(18, 3, b"\1\1\0", correlation_id))
            frame = connection.receive_frame()
            assert struct.unpack_from(">i", frame) == (correlation_id,)
            assert response_header_version(18, 3) == 0
