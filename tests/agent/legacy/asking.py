"""Requests at old versions in kafka-python's classes, which are independent of Lacuna's."""

from io import BytesIO
from typing import Any

from kafka.protocol.old.api import Request, RequestHeader
from kafka.protocol.old.types import Array, Int32, Schema, String

from tests.agent.harness import RawClient, encode_request


class DescribeLogDirsRequest_v0(Request):  # type: ignore[misc]  # noqa: N801 - as kafka-python's
    """kafka-python's own class has one partition per topic, whereas the protocol has an array."""

    API_KEY = 35
    API_VERSION = 0
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


def body_of(request: Any) -> bytes:
    """Return the bytes after the request's header."""
    return bytes(request.encode())


async def send(client: RawClient, request: Any) -> None:
    """Send a request without reading the answer."""
    client.send(encode_request(request.API_KEY, request.API_VERSION, body_of(request)))


async def ask(client: RawClient, request: Any) -> Any:
    """Send a request, and return the answer, which must have no bytes left over."""
    await send(client, request)
    stream = BytesIO((await client.frame())[4:])
    header = RequestHeader(request.API_KEY, request.API_VERSION, 1, "test")
    response = header.get_response_class().decode(stream)
    assert stream.read() == b""
    return response
