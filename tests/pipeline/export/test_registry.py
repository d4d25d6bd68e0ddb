"""Tests exports with a schema registry: each record is decoded with its own schema and resolved to the newest one."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lacuna.pipeline.errors import PipelineError, UndecodableRecordError
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.typed.registry import Registry, RegistryUnavailable, Subjects
from lacuna.pipeline.export.typed.schema import NotOfSchemaError, decoder_of
from tests.lacuna.console.test_decoding import CUSTOMER, described, with_id
from tests.lacuna.console.test_decoding import Registry as Served
from tests.pipeline.export.conftest import Lake

#: Five versions of a record, each of which resolves to the last one.
VERSIONS = json.loads(Path(__file__).with_name("schemas.json").read_text())["versions"]
AVRO_ROWS = [each["row"] for each in VERSIONS]
_FOLDER = [{"name": ".", "subject": "other", "version": 1}]
_CUSTOMER = [{"name": "shop.Customer", "subject": "shop/customer", "version": 3}]


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.close()


def add_avro(served: Served, subject: str) -> list[bytes]:
    """Add the five versions of a subject, and return a value of each."""
    served.answers["/subjects/shop%2Fcustomer/versions/3"] = {"schema": json.dumps(CUSTOMER)}
    values = []
    for number, each in enumerate(VERSIONS, 1):
        schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": each["fields"]}
        answer = {"id": number, "schema": json.dumps(schema), "references": _CUSTOMER}
        served.answers[f"/schemas/ids/{number}"] = answer
        served.answers[f"/subjects/{subject}/versions/latest"] = answer
        named: dict[str, Any] = {}
        fastavro.parse_schema(CUSTOMER, named_schemas=named)
        target = io.BytesIO()
        parsed = fastavro.parse_schema(schema, named_schemas=named)
        fastavro.schemaless_writer(target, parsed, each["value"])
        values.append(with_id(number, target.getvalue()))
    return values


def produce(lake: Lake, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def rows(to: Path, topic: str) -> list[Any]:
    table = pads.dataset(str(to / f"topic={topic}"), partitioning="hive").to_table()
    return list(table.sort_by("offset").column("value").to_pylist())


@pytest.mark.slow
def test_each_record_is_read_by_its_own_schema(lake: Lake, served: Served, tmp_path: Path) -> None:
    orders, plain, other = lake.topic(), lake.topic(), lake.topic()
    values = add_avro(served, f"{orders}-value")
    produce(lake, orders, [*values, with_id(99, b"?"), b"no prefix"])
    produce(lake, plain, [b"bytes"])
    produce(lake, other, values[:1])
    subjects = Subjects(registry=Registry(served.url), values={other: "shop.Missing"})
    settings: dict[str, Any] = {"subjects": subjects}
    failed, exported, missing = lake.export_all([orders, plain, other], **settings)
    # A record that does not match its schema, or a subject that is missing, costs its topic only.
    assert isinstance(failed, TopicFailure)
    assert isinstance(failed.error, UndecodableRecordError)
    assert "offset 5: the value" in str(failed.error)
    assert isinstance(missing, TopicFailure)
    assert str(missing.error) == "subject shop.Missing: the registry does not have it"
    assert isinstance(exported, TopicReport)
    assert rows(tmp_path, plain) == [b"bytes"]
    (report,) = lake.export_all([orders], **settings, on_error="null")
    assert isinstance(report, TopicReport)
    assert report.misfits == 2
    assert rows(tmp_path, orders) == [*AVRO_ROWS, None, None]
    assert served.asked.count("/schemas/ids/1") <= 2  # the two exports


@pytest.mark.parametrize(
    ("template", "subject"),
    [
        (None, "orders-value"),
        ("shop.Order", "shop.Order"),
        ("{topic}-shop.Order", "orders-shop.Order"),
    ],
)
def test_subjects_have_the_names_of_all_strategies(
    served: Served, template: str | None, subject: str
) -> None:
    values = add_avro(served, subject)
    named = {} if template is None else {"ord*": template}
    schema = Subjects(registry=Registry(served.url), values=named).value("orders")
    assert schema is not None
    assert Subjects(registry=Registry(served.url)).key("orders") is None
    assert [decoder_of(schema).value(each) for each in values] == AVRO_ROWS


def test_a_registry_that_does_not_answer_is_no_bad_record(served: Served) -> None:
    values = add_avro(served, "orders-value")
    schema = Subjects(registry=Registry(served.url)).value("orders")
    assert schema is not None
    decoder = decoder_of(schema)
    served.close()
    with pytest.raises(RegistryUnavailable, match="the registry does not answer"):
        decoder.value(values[0])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"schema": "{}"}, "response is not valid"),
        ({"id": [], "schema": "{}"}, "response is not valid"),
        ({"id": 1, "schema": "{}", "references": [{"name": "other"}]}, "response is not valid"),
        ({"id": 1, "schema": "{}", "references": 7}, "response is not valid"),
        ({"id": 1, "schemaType": "PROTOBUF", "schema": ""}, "imports 'google/protobuf/no.proto'"),
        ({"id": 2, "schemaType": "PROTOBUF", "schema": "", "references": _FOLDER}, "a directory"),
    ],
)
def test_an_answer_of_another_form_costs_its_schema_only(
    served: Served, answer: dict[str, Any], reason: str
) -> None:
    file = descriptor_pb2.FileDescriptorProto(dependency=["google/protobuf/no.proto"])
    text = base64.b64encode(file.SerializeToString()).decode()
    served.answers["/subjects/orders-value/versions/latest"] = answer
    for path in ("/schemas/ids/1", "/schemas/ids/2"):
        served.answers[path] = answer
    served.answers["/schemas/ids/1?format=serialized"] = {"schema": text}
    for path in ("/schemas/ids/2", "/subjects/other/versions/1"):
        served.answers[f"{path}?format=serialized"] = {"schema": 'syntax = "proto3";'}
    with pytest.raises(PipelineError, match=f"subject orders-value: .*{reason}"):
        Subjects(registry=Registry(served.url)).value("orders")


def test_a_server_of_another_protocol_is_no_registry() -> None:
    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"* OK ready\r\n")

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(RegistryUnavailable, match="the registry does not answer: "):
            Registry(f"http://127.0.0.1:{server.server_address[1]}").by_id(1)
        thread.join()


def test_a_redirect_takes_the_login_to_no_other_server(served: Served) -> None:
    there = Served()
    try:
        there.answers["/schemas/ids/1"] = {"schema": '"int"'}
        served.moved = {"/schemas/ids/1": "/moved", "/moved": f"{there.url}/schemas/ids/1"}
        found = Registry(served.url, b"user:secret").by_id(1)
    finally:
        there.close()
    assert found.document == b'"int"'
    assert served.asked == ["/schemas/ids/1", "/moved"]
    (login,) = served.authorizations
    assert login is not None
    assert there.authorizations == {None}


def test_json_schemas_refer_to_others(served: Served) -> None:
    line = {
        "$id": "http://shop/line",
        "type": "object",
        "properties": {"sku": {"$ref": "#/$defs/sku"}},
    }
    line["$defs"] = {"sku": {"type": "string"}}
    served.answers["/subjects/line/versions/1"] = {"schema": json.dumps(line)}
    properties: dict[str, Any] = {"id": {"type": "integer"}}
    for number in range(1, 6):
        if number == 3:
            properties["line"] = {"$ref": "line.json"}
        if number == 5:
            properties["lines"] = {"type": "array", "items": {"$ref": "line#"}}
        document = {"$id": "http://shop/order", "type": "object", "properties": dict(properties)}
        references = [{"name": "line.json", "subject": "line", "version": 1}]
        found = {"id": number, "schemaType": "JSON", "schema": json.dumps(document)}
        found |= {"references": references if number > 2 else []}
        served.answers[f"/schemas/ids/{number}"] = found
        served.answers["/subjects/orders-value/versions/latest"] = found
    schema = Subjects(registry=Registry(served.url)).value("orders")
    assert schema is not None
    decoder = decoder_of(schema)
    assert str(decoder.type) == (
        "struct<id: int64, line: struct<sku: string>, lines: list<item: struct<sku: string>>>"
    )
    assert decoder.value(with_id(1, b'{"id": 1}')) == {"id": 1}
    text = b'{"id": 5, "lines": [{"sku": "a"}]}'
    assert decoder.value(with_id(5, text)) == json.loads(text)
    with pytest.raises(NotOfSchemaError, match="7 is not of type 'string'"):
        decoder.value(with_id(4, b'{"line": {"sku": 7}}'))
    # Version 2 does not limit `line`, so the value matches its own schema, but not the newest one.
    values = pa.array([with_id(2, b'{"line": 7}'), with_id(2, b'{"id": 2}')])
    decoded, failures = decoder.decode_all(values)
    assert decoded.to_pylist() == [None, {"id": 2, "line": None, "lines": None}]
    assert [each.row for each in failures] == [0]
    assert failures[0].reason.startswith("it does not fit the newest schema")


def test_protobuf_messages_are_read_by_the_newest_one(served: Served) -> None:
    money = {"name": "money.proto", "subject": "money", "version": 1}
    for query in ("", "?format=serialized"):
        served.answers[f"/subjects/money/versions/1{query}"] = {
            "schema": described("money.proto", text=query == "")
        }
    pool = descriptor_pool.DescriptorPool()
    older = descriptor_pb2.FileDescriptorProto(name="older.proto", package="shop", syntax="proto3")
    message = older.message_type.add(name="Order")
    message.field.add(name="gone", number=9, type=3, label=1)
    other = older.message_type.add(name="Other")
    other.field.add(name="nothing", number=1, type=9, label=1)
    pool.Add(older)
    for number in range(1, 6):
        text = described("order.proto")
        if number < 5:
            text = base64.b64encode(older.SerializeToString()).decode()
        answer = {"id": number, "schemaType": "PROTOBUF", "schema": text}
        answer["references"] = [money] if number == 5 else []
        served.answers[f"/schemas/ids/{number}"] = answer
        served.answers[f"/schemas/ids/{number}?format=serialized"] = answer
        served.answers["/subjects/orders-value/versions/latest"] = answer
    subjects = Subjects(registry=Registry(served.url), messages={"": "shop.Order"})
    schema = subjects.value("orders")
    assert schema is not None
    decoder = decoder_of(schema)
    written: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(gone=3)
    assert not decoder.value(with_id(1, b"\x00" + written.SerializeToString())).lines
    with pytest.raises(NotOfSchemaError, match=r"it is a shop\.Other, not a shop\.Order"):
        decoder.value(with_id(2, bytes([2, 2])))
    with pytest.raises(PipelineError, match="there is no message"):
        Subjects(registry=Registry(served.url), messages={"": "shop.None"}).value("orders")
