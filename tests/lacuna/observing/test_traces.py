"""Tests spans for requests and flushes, from a process to a collector and with OpenTelemetry's SDK."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.forked import ForkedCluster
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Refusal


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector's URL, and the spans that it receives."""
    got: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - of the base class
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_requests_and_flushes_have_spans(
    tmp_path: Path,
    collector: tuple[str, list[ExportTraceServiceRequest]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All spans are exported before the process ends."""
    url, got = collector
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with ForkedCluster(tmp_path / "data") as up:
        producer = clients.transactional(up.bootstrap, "shop")
        clients.transact(producer, "t", ["x"])
    resources = [each for request in got for each in request.resource_spans]
    spans = [span for each in resources for scope in each.scope_spans for span in scope.spans]
    names = [span.name for span in spans]
    assert {"InitProducerId", "AddPartitionsToTxn", "EndTxn", "ApiVersions"} <= set(names)
    (produce,) = (span for span in spans if span.name == "Produce")
    attributes = {each.key: each.value.string_value for each in produce.attributes}
    assert (attributes["messaging.system"], attributes["messaging.client.id"]) == (
        "kafka",
        "rdkafka",
    )
    (flush,) = (span for span in spans if span.name == "flush")
    children = {span.name: span for span in spans if span.parent_span_id == flush.span_id}
    assert set(children) == {"put", "commit"}
    put, commit = children["put"], children["commit"]
    # The flush is within the request that it serves, and its PUT comes before its commit.
    assert (
        produce.start_time_unix_nano
        <= flush.start_time_unix_nano
        == put.start_time_unix_nano
        <= put.end_time_unix_nano
        == commit.start_time_unix_nano
        <= commit.end_time_unix_nano
        == flush.end_time_unix_nano
    )
    assert abs(flush.end_time_unix_nano - produce.end_time_unix_nano) < 60 * 10**9


def test_an_exporter_that_does_not_exist(refused: Refusal, tmp_path: Path) -> None:
    said = refused(
        "up", "--data", str(tmp_path), "--listen", "127.0.0.1:0", OTEL_TRACES_EXPORTER="zipkin"
    )
    assert (
        said
        == "OTEL_TRACES_EXPORTER=zipkin is not a trace exporter: set it to otlp, console or none"
    )
