"""Tests how records are decoded with a schema registry, using one that answers as Confluent's does."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from lacuna.base.errors import UserError
from lacuna.console.decoding import Decoding
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import SECONDS, Seconds, served
from tests.lacuna.console.test_pages import plain

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "Customer"},
        {"name": "payer", "type": ["null", "shop.Customer"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
    ],
}
SOURCE = """
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Other { string nothing = 1; }
message Order {
  message Line { string product = 1; int64 count = 2; }
  repeated Line lines = 1;
  Money total = 2;
  google.protobuf.Timestamp at = 3;
}
"""
STAMP = ".google.protobuf.Timestamp"
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


def described(name: str, *, text: bool = False) -> str:
    """Return a Protobuf schema as a registry returns it: serialized or as text."""
    if text:
        return {"money.proto": MONEY, "order.proto": SOURCE}[name]
    money = descriptor_pb2.FileDescriptorProto(name="", package="shop", syntax="proto3")
    cents = money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    cents.json_name = "cents"
    if name == "money.proto":
        return base64.b64encode(money.SerializeToString()).decode()
    order = descriptor_pb2.FileDescriptorProto(name="", package="shop", syntax="proto3")
    order.dependency.extend(["money.proto", "google/protobuf/timestamp.proto"])
    order.message_type.add(name="Other").field.add(name="nothing", number=1, type=9, label=1)
    message = order.message_type.add(name="Order")
    line = message.nested_type.add(name="Line")
    line.field.add(name="product", number=1, type=9, label=1)
    line.field.add(name="count", number=2, type=3, label=1)
    lines = message.field.add(name="lines", number=1, type=11, label=3)
    lines.type_name = ".shop.Order.Line"
    message.field.add(name="total", number=2, type=11, type_name=".shop.Money", label=1)
    message.field.add(name="at", number=3, type=11, type_name=STAMP, label=1)
    return base64.b64encode(order.SerializeToString()).decode()


class Registry:
    """A schema registry that counts the requests that it receives."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.authorizations: set[str | None] = set()
        self.answers: dict[str, Mapping[str, Any]] = {}
        #: Where each path has moved to.
        self.moved: dict[str, str] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.authorizations.add(self.headers["authorization"])
                if self.path in registry.moved:
                    self.send_response(302)
                    self.send_header("location", registry.moved[self.path])
                    self.end_headers()
                    return
                answer = registry.answers.get(self.path)
                body = json.dumps(answer or {"error_code": 40403}).encode()
                self.send_response(200 if answer else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry()
    found.answers = {
        "/schemas/ids/1": {
            "schema": json.dumps(ORDER),
            "references": [{"name": "shop.Customer", "subject": "shop/customer", "version": 3}],
        },
        "/subjects/shop%2Fcustomer/versions/3": {"schema": json.dumps(CUSTOMER)},
        "/schemas/ids/2": {"schema": '{"type": "object"}', "schemaType": "JSON"},
        "/schemas/ids/9": {"schema": "?", "schemaType": "THRIFT"},
        "/schemas/ids/10": {"schema": '{"type": "nothing"}'},
    }
    for schema_id, is_text in ((3, False), (4, True)):
        references = [{"name": "money.proto", "subject": f"money{schema_id}", "version": 1}]
        order = {"schema": described("order.proto", text=is_text), "schemaType": "PROTOBUF"}
        for query in ("", "?format=serialized"):
            found.answers |= {
                f"/schemas/ids/{schema_id}{query}": order | {"references": references},
                f"/subjects/money{schema_id}/versions/1{query}": {
                    "schema": described("money.proto", text=is_text)
                },
            }
    yield found
    found.close()


def with_id(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + data


def avro() -> bytes:
    target = io.BytesIO()
    named: dict[str, Any] = {}
    fastavro.parse_schema(CUSTOMER, named_schemas=named)
    schema = fastavro.parse_schema(ORDER, named_schemas=named)
    order = {"id": 7, "customer": {"name": "Zoë"}, "payer": None, "at": 1_000, "raw": b"\xff"}
    fastavro.schemaless_writer(target, schema, order)
    return target.getvalue()


def protobuf() -> bytes:
    """Return an Order, the second message of its file, as Confluent's serializer writes it."""
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    pool.Add(stamp)
    for name in ("money.proto", "order.proto"):
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(described(name)))
        file.name = name
        pool.Add(file)
    order: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    line = order.lines.add()
    line.product, line.count = "tea", 2
    order.total.cents = 995
    order.at.seconds = 1
    one_index = bytes([2, 2])  # which is 1, as zigzag varints
    return one_index + bytes(order.SerializeToString())


TEXTS = {
    1: ["Avro, schema 1", '"customer": { "name": "Zoë" }', '"at": "1970-01-01T00:00:01+00:00"'],
    2: ["JSON Schema, schema 2", '{"a": 1}'],
    3: ["Protobuf, schema 3", '"product": "tea"', '"cents": "995"', '"at": "1970-01-01T00:00:01Z"'],
    4: ["Protobuf, schema 4", '"product": "tea"', '"cents": "995"', '"at": "1970-01-01T00:00:01Z"'],
    9: ["schema 9: its type THRIFT is not known"],
    10: ["schema 10: the Avro schema is not valid"],
    11: ["schema 11: the registry returned 404"],
}


@pytest.mark.slow
def test_records_are_decoded_by_their_schemas(
    lacuna_private_cluster: Cluster, registry: Registry
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 30_000})
    values = {1: avro(), 2: b'{"a": 1}', 3: protobuf(), 4: protobuf(), 9: b"x", 10: b"x", 11: b"x"}
    for schema_id, value in values.items():
        producer.produce("orders", key=with_id(2, b'"k"'), value=with_id(schema_id, value))
    producer.produce("orders", value=with_id(1, b"\xff"))  # it does not match its schema
    producer.produce("orders", value=b"\x00plain")
    assert producer.flush(SECONDS) == 0
    decoding = Decoding(registry.url, lambda: 0.0, b"user:secret\n")
    with served(cluster, decoding=decoding) as browser:
        for at, texts in enumerate(TEXTS.values()):
            shown = plain(browser.get(f"/topics/orders/messages?from={at}&count=1").text)
            assert "Key JSON Schema, schema 2" in shown
            for text in texts:
                assert text in shown
        shown = plain(browser.get("/topics/orders/messages?from=7").text)
        assert "Value hex, 6 B 00 00 00 00 01 ff" in shown
        assert "\\x00plain" in shown
        asked = len(registry.asked)
        assert "Avro, schema 1" in plain(browser.get("/topics/orders/messages").text)
        assert "schema 1" not in plain(browser.get("/topics/orders/messages?as=hex").text)
        # Schemas do not change, and failures are cached for a while.
        assert len(registry.asked) == asked
    assert registry.authorizations == {"Basic dXNlcjpzZWNyZXQ="}


async def test_a_registry_that_is_away_is_asked_again_later(registry: Registry) -> None:
    seconds = Seconds()
    decoding = Decoding(registry.url, seconds)
    data = with_id(2, b"{}")
    answer = registry.answers.pop("/schemas/ids/2")
    await decoding.prepare([2])
    assert decoding.why_not(data) == "schema 2: the registry returned 404 for /schemas/ids/2"
    registry.answers["/schemas/ids/2"] = answer
    await decoding.prepare([2])
    assert decoding.decode(data) is None
    seconds.pass_by(60)
    await decoding.prepare([2])
    assert decoding.decode(data) == ("{}", "JSON Schema, schema 2")
    assert decoding.why_not(data) == ""


async def test_what_is_fetched_is_bounded(registry: Registry) -> None:
    decoding = Decoding(registry.url, lambda: 0.0)
    await decoding.prepare(range(1000, 1100))
    assert len(registry.asked) == 16
    registry.answers["/schemas/ids/5"] = {"schema": "x" * 2_000_000, "schemaType": "JSON"}
    await decoding.prepare([5])
    assert decoding.why_not(with_id(5, b"")) == "schema 5: it is larger than 1 MiB"
    circle = {"schema": "{}", "references": [{"name": "a", "subject": "a", "version": 1}]}
    registry.answers |= {"/schemas/ids/6": circle, "/subjects/a/versions/1": circle}
    await decoding.prepare([6])
    assert decoding.why_not(with_id(6, b"")).startswith("schema 6: ")


@pytest.mark.parametrize("url", ["", "localhost:8081", "file:///etc/passwd"])
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(UserError, match="specify http://HOST:PORT"):
        Decoding(url, lambda: 0.0)
