"""Sends every request of every API and version with arbitrary fields, and expects an answer or a clean close.

tests/agent/test_every_api.py and test_odd_clients.py read the answers of supported requests. This module tests the
unsupported ones, and mixes all of them on connections of one running agent, which must then serve the next client
normally.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.agent.apis import discover
from lacuna.testing import Cluster
from tests.agent.harness import encode_request
from tests.agent.requests import requests
from tests.clients.hurry import keep_leases
from tests.clients.wire import ClosedError, Connection
from tests.golden import messages as golden
from tests.messages import REQUESTS, encode_body

REGISTRY = discover()
ALL = sorted({(key, each.version) for key in golden.API_NAMES for each in golden.requests(key)})
NOT_SERVED = sorted({key for key, version in ALL if REGISTRY.get(key, version) is None})
CORRELATION_ID = 5
END_SECONDS = 60.0


def _bodies(api_key: int, version: int) -> st.SearchStrategy[bytes]:
    """Return bodies of any requests, using Kafka's bytes for APIs without messages in Lacuna."""
    if api_key in REQUESTS:
        return requests(api_key, version).map(lambda asked: encode_body(api_key, version, asked))
    written = [each.body for each in golden.requests(api_key) if each.version == version]
    return st.sampled_from(written)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One agent, and the topic that arbitrary requests often name."""
    with Cluster() as running:
        keep_leases(running)
        running.create_topic("t", 2)
        yield running


def _is_answered(bootstrap: str, api_key: int, version: int, body: bytes) -> bool:
    """Return whether an answer preceded the end of the connection. Raises if neither arrives.

    The client closes its sending side, so the connection also ends if a request waits or expects no answer.
    """
    with Connection(bootstrap, timeout=END_SECONDS) as connection:
        connection.send_bytes(encode_request(api_key, version, body, CORRELATION_ID))
        with contextlib.suppress(OSError):  # closed already
            connection.socket.shutdown(socket.SHUT_WR)
        try:
            answer = connection.receive_frame()
        except ClosedError:
            return False
        with pytest.raises(ClosedError):
            connection.receive_frame()
    assert int.from_bytes(answer[:4], "big") == CORRELATION_ID
    return True


@pytest.mark.parametrize("api_key", NOT_SERVED)
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_what_is_not_served_closes_that_connection(
    cluster: Cluster, api_key: int, data: st.DataObject
) -> None:
    versions = [v for key, v in ALL if key == api_key and REGISTRY.get(key, v) is None]
    version = data.draw(st.sampled_from(versions))
    body = data.draw(_bodies(api_key, version))
    assert not _is_answered(cluster.bootstrap, api_key, version, body)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_request_of_all_and_then_the_next_client(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """The requests run on one cluster, and each finds what the earlier ones changed."""
    api_key, version = data.draw(st.sampled_from(ALL))
    body = data.draw(_bodies(api_key, version))
    answered = _is_answered(cluster.bootstrap, api_key, version, body)
    if REGISTRY.get(api_key, version) is None:
        assert not answered
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
    with Connection(cluster.bootstrap) as connection:
        assert connection.call("api_versions", 0)["error_code"] == 0
