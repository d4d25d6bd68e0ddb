"""OpenTelemetry traces of an agent's requests and flushes, if OTEL_TRACES_EXPORTER is set.

The variable names the destination of spans: `otlp`, or `console` for experiments. OpenTelemetry's SDK reads everything
else, such as the endpoint, the sampler and the queue limits, from its own variables.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from lacuna.agent.context import AgentContext
from lacuna.agent.produce.flush import FlushSeen
from lacuna.agent.registry import api_names
from lacuna.base.errors import UserError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

log = logging.getLogger("lacuna")

_VARIABLE: Final = "OTEL_TRACES_EXPORTER"
_NANOSECONDS: Final = 1_000_000_000


@contextmanager
def traced(context: AgentContext) -> Iterator[None]:
    """Export an agent's traces while the body runs, if OTEL_TRACES_EXPORTER is set.

    Raises UserError for an unknown exporter, or if OpenTelemetry's SDK is not installed.
    """
    wanted = os.environ.get(_VARIABLE, "none")
    if wanted in ("", "none"):
        yield
        return
    provider = _provider(wanted, context)
    trace_agent(context, provider.get_tracer("lacuna", version("lacuna-log")))
    try:
        yield
    finally:
        context.metrics.on_request = None
        context.produce.flusher.metrics.on_flush = None
        provider.shutdown()


def trace_agent(context: AgentContext, tracer: "Tracer") -> None:
    """Make `tracer` record a span for each of the agent's requests, and a span with two children for each flush."""
    from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

    names = api_names()
    # Converts the counter's value to the time of day, in nanoseconds.
    offset = time.time_ns() - round(time.perf_counter() * _NANOSECONDS)

    def at(seconds: float) -> int:
        return offset + round(seconds * _NANOSECONDS)

    def on_request(key: int, api_version: int, client_id: str, began: float, ended: float) -> None:
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.client.id": client_id,
            "lacuna.api.version": api_version,
        }
        name = names.get(key, str(key))
        span = tracer.start_span(
            name, kind=SpanKind.SERVER, attributes=attributes, start_time=at(began)
        )
        span.end(at(ended))

    def on_flush(seen: FlushSeen) -> None:
        attributes: dict[str, str | int] = {
            "lacuna.segment": seen.segment,
            "messaging.batch.message_count": seen.batches,
        }
        flush = tracer.start_span("flush", attributes=attributes, start_time=at(seen.began))
        inside = set_span_in_context(flush)
        put = tracer.start_span("put", inside, SpanKind.CLIENT, start_time=at(seen.began))
        put.end(at(seen.put))
        commit = tracer.start_span("commit", inside, SpanKind.CLIENT, start_time=at(seen.put))
        commit.end(at(seen.ended))
        if seen.has_failed:
            flush.set_status(StatusCode.ERROR)
        flush.end(at(seen.ended))

    context.metrics.on_request = on_request
    context.produce.flusher.metrics.on_flush = on_flush


def _provider(wanted: str, context: AgentContext) -> "TracerProvider":
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise UserError(
            f"{_VARIABLE}={wanted} needs OpenTelemetry's SDK: pip install 'lacuna-log[traces]'"
        ) from None
    lease = context.lease
    resource = Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "lacuna-agent"),
            "service.version": version("lacuna-log"),
            "service.instance.id": f"{lease.host}:{lease.port}",
        }
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(_exporter(wanted)))
    log.info("traces go to %s", wanted)
    return provider


def _exporter(wanted: str) -> "SpanExporter":
    if wanted == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if wanted == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    raise UserError(
        f"{_VARIABLE}={wanted} is not a trace exporter: set it to otlp, console or none"
    )
