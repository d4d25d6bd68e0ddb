"""Tests keys and values in JSON Schema, Avro and Protobuf, and records that do not match."""

import datetime
import decimal
import io
import json
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.pipeline.errors import DestinationError, PipelineError, UndecodableRecordError
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.typed.avro import avro_reader, check_depth
from lacuna.pipeline.export.typed.naming import load_schema
from lacuna.pipeline.export.typed.schema import NotOfSchemaError, TypedSchema, decoder_of
from tests.pipeline.export.conftest import Lake

_INSTANT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)

_HERE = Path(__file__).parent
_SCHEMAS: dict[str, Any] = json.loads((_HERE / "schemas.json").read_text())
JSON_SCHEMA = _SCHEMAS["json"]["schema"]
JSON_VALUE = _SCHEMAS["json"]["value"]
AVRO_SCHEMA = _SCHEMAS["avro"]
_BY_JSON = TypedSchema("json", json.dumps(JSON_SCHEMA).encode())
_BY_AVRO = TypedSchema("avro", json.dumps(AVRO_SCHEMA).encode())
AVRO_VALUE: dict[str, Any] = {
    "id": 7,
    "amount": decimal.Decimal("12.34"),
    "at": _INSTANT,
    "on": datetime.date(2026, 1, 2),
    "state": "NEW",
    "before": "SENT",
    "tags": {"x": 1},
    "raw": [b"\x00", b""],
    "either": 5,
    "next": None,
}


def _json(**properties: Any) -> TypedSchema:
    schema = {"type": "object", "properties": properties}
    return TypedSchema("json", json.dumps(schema).encode())


def _avro(value: Any, schema: Any = AVRO_SCHEMA) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, value)
    return target.getvalue()


def _decode(schema: TypedSchema, *values: bytes | None) -> tuple[list[Any], list[Any]]:
    found, failures = decoder_of(schema).decode_all(pa.array(values, pa.binary()))
    assert found.type == decoder_of(schema).type
    return found.to_pylist(), failures


def test_json_by_its_schema() -> None:
    assert _decode(_BY_JSON, None, json.dumps(JSON_VALUE).encode()) == (
        [
            None,
            {
                "id": 7,
                "price": None,
                "paid": True,
                "at": _INSTANT,
                "on": datetime.date(2026, 1, 2),
                "state": "new",
                "lines": [{"sku": "a"}, {"sku": "b"}],
                "tags": [("x", 1)],
                "maybe": {"sku": "c"},
                "either": "5",
                "any": '{"deep":[1]}',
                "tree": '{"id":8}',
            },
        ],
        [],
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "it is not valid JSON"),
        (b"\xff", "it is not valid JSON"),
        (b'{"id": NaN}', "NaN is not a number"),
        (b"{}", r"\$: 'id' is a required property"),
        (b'{"id": "x"}', r"\$\.id: 'x' is not of type 'integer'"),
        (b'{"id": 1, "lines": [{}]}', r"\$\.lines\[0\]: 'sku' is a required property"),
        (b'{"id": 1, "at": "now"}', "'now' is not a date-time"),
        (b'{"id": 1, "at": "2026-01-01T00:00:00"}', "its offset from UTC is missing"),
        (b'{"id": 99999999999999999999}', "it does not fit struct"),
        (b'{"id": 1, "tree": {"id": "x"}}', r"\$\.tree\.id: 'x'"),
    ],
)
def test_json_that_does_not_fit(value: bytes, reason: str) -> None:
    found, failures = _decode(_BY_JSON, b'{"id": 1}', value, b'{"id": 2}')
    assert [row and row["id"] for row in found] == [1, None, 2]
    ((row, said),) = failures
    assert row == 1
    with pytest.raises(ValueError, match=reason):
        raise ValueError(said)


def test_a_json_number_beyond_a_double_is_a_misfit() -> None:
    found, failures = _decode(_json(a={"type": "number", "multipleOf": 0.01}), b'{"a": 1e400}')
    assert found == [None]
    assert failures[0].reason.startswith("it is not valid JSON (cannot convert Infinity")


def test_avro_by_its_schema() -> None:
    inner = {**AVRO_VALUE, "id": 8}
    found, failures = _decode(
        _BY_AVRO, _avro(AVRO_VALUE), None, _avro({**AVRO_VALUE, "next": inner})
    )
    assert failures == []
    expected = {**AVRO_VALUE, "tags": [("x", 1)], "either": "5"}
    assert found[:2] == [expected, None]
    assert json.loads(found[2]["next"])["amount"] == "12.34"
    data = _avro(AVRO_VALUE)
    found, failures = _decode(_BY_AVRO, data[:-2], data + b"x", b"")
    assert found == [None] * 3
    assert [row for row, _ in failures] == [0, 1, 2]
    assert failures[1].reason == "1 bytes remain after the value described by the Avro schema"
    assert failures[2].reason == "it does not match the Avro schema (it ends early)"


_EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}
_PAD = {"name": "pad", "type": "bytes"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array", "items": "null"}, "items take no bytes"),
        (["null", {"type": "map", "values": {"type": "array", "items": _EMPTY}}], "items take no"),
        ({"type": "record", "name": "R", "fields": [
            {"name": "one", "type": _EMPTY},
            {"name": "many", "type": {"type": "array", "items": "Empty"}},
        ]}, "items take no bytes"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}, _PAD]},
         "R contains itself"),
        ({"type": "record", "name": "R", "fields": [{"name": "s", "type":
            {"type": "record", "name": "S", "fields": [_PAD, {"name": "r", "type": "R"}]}
        }]}, "R contains itself"),
    ],
)  # fmt: skip
def test_avro_whose_values_nothing_bounds_is_refused(schema: Any, reason: str) -> None:
    """Six bytes could encode a list of a billion elements, and zero bytes an endless recursion."""
    with pytest.raises(PipelineError, match=reason):
        decoder_of(TypedSchema("avro", json.dumps(schema).encode()))


def test_avro_of_few_bytes_that_has_an_end() -> None:
    """Empty records are valid, and so are recursive records that end."""
    fields = [
        {"name": "empty", "type": _EMPTY},
        {"name": "some", "type": {"type": "array", "items": ["null", "R"]}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    found, failures = _decode(TypedSchema("avro", json.dumps(schema).encode()), b"\x02\0\0")
    assert failures == []
    assert len(found[0]["some"]) == 1


def test_avro_that_names_its_records_again_and_again_is_read_at_once() -> None:
    """A reader that examined a record wherever it is named would do so 2**60 times."""
    schema: Any = "int"
    for level in range(60):
        again = {"name": "again", "type": f"R{level - 1}" if level else "int"}
        fields = [{"name": "first", "type": schema}, again]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(NotOfSchemaError, match="it ends early"):
        avro_reader(json.dumps(schema).encode())(b"")


@pytest.mark.parametrize("levels", [3_000, 200_000])
@pytest.mark.parametrize(
    "next_of", [["null", "Node"], ["null", "string", {"type": "array", "items": "Node"}]], ids=str
)
def test_avro_that_nests_too_deeply_is_a_misfit(levels: int, next_of: Any) -> None:
    """It does not crash the process, although the compiled reader's stack would overflow."""
    fields = [{"name": "next", "type": next_of}, {"name": "pad", "type": "bytes"}]
    schema = {"type": "record", "name": "Node", "fields": fields}
    document = json.dumps({"type": "record", "name": "Top", "fields": [
        {"name": "first", "type": schema}, {"name": "second", "type": "Node"}
    ]})  # fmt: skip
    deeper = b"\x02" if len(next_of) == 2 else b"\x04\x02"
    whole = _avro({each: {"next": None, "pad": bytes(3000)} for each in ("first", "second")},
                  json.loads(document))  # fmt: skip
    found, failures = _decode(
        TypedSchema("avro", document.encode()), deeper * levels + b"\0", whole
    )
    assert found[0] is None
    assert found[1] is not None
    ((row, reason),) = failures
    assert (row, reason) == (0, "it is nested too deeply")


_NESTED: Any = _SCHEMAS["nested"]


def _nested(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {
        "next": None,
        "all": [],
        "by": {},
        "kind": "B",
        "id": b"1234",
        "at": 5,
        "ratio": 0.5,
    }
    for level in range(levels):
        inner: tuple[str, Any] = [
            ("next", node),
            ("all", [node, node]),
            ("by", {"k": node, "text": "v"}),
        ][level % 3]
        node = {**node, "next": None, "all": [], "by": {}, inner[0]: inner[1]}
    return node


def test_avro_of_every_type_is_passed_over_to_its_depth() -> None:
    names: dict[str, Any] = {}
    parsed = fastavro.parse_schema(_NESTED, names)
    check_depth(_avro(_nested(12), _NESTED), parsed, names)
    found, failures = _decode(
        TypedSchema("avro", json.dumps(_NESTED).encode()), _avro(_nested(12), _NESTED)
    )
    assert failures == []
    assert found[0] is not None


@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_bytes_are_passed_over_in_bounded_time(noise: bytes, at: int) -> None:
    """Negative lengths and endless numbers cause errors, not endless loops."""
    names: dict[str, Any] = {}
    parsed = fastavro.parse_schema(_NESTED, names)
    value = _avro(_nested(4), _NESTED)
    with suppress(ValueError, IndexError):
        check_depth(value[:at] + noise + value[at:], parsed, names)


@pytest.mark.slow
def test_protobuf_by_source_and_descriptors(tmp_path: Path) -> None:
    source = _HERE / "order.proto"
    with pytest.raises(
        PipelineError, match=r"several messages: specify one \(shop.Line, shop.Order\)"
    ):
        load_schema(source)
    schema = load_schema(source, "shop.Order")
    described = tmp_path / "order.desc"
    described.write_bytes(schema.document)
    assert load_schema(described, "shop.Order") == schema
    data = _serialized(tmp_path)
    found, failures = _decode(schema, data, b"", None, b"\xff")
    assert found[0] == {
        "id": 7,
        "note": None,
        "at": _INSTANT,
        "state": "SENT",
        "lines": [{"sku": "a"}],
        "tags": [("x", 1)],
        "maybe": 0,
        "big": decimal.Decimal(2**64 - 1),
        "raw": b"\xff",
        "text": None,
        "number": 0.5,
        "free": '{"a": 1.0}',
        "next": '{"id": "8"}',
    }
    assert found[1]["id"] == 0
    assert found[1]["at"] is None
    assert [row for row, _ in failures] == [3]
    prefixed = TypedSchema("protobuf", schema.document, "shop.Order", has_prefix=True)
    head = struct.pack(">bi", 0, 17)
    found, failures = _decode(prefixed, head + b"\x02\x02" + data, head + b"\x00" + data, data)
    assert [row and row["id"] for row in found] == [7, 7, None]
    assert failures == [(2, "Confluent's prefix (a 0 byte and a schema id) is missing")]


def _serialized(folder: Path) -> bytes:
    """Return a message as another program writes it: with generated code, in a separate process."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_HERE}", f"--python_out={folder}"]
    subprocess.run([*command, "order.proto"], check=True, timeout=280)
    script = (
        "import sys, order_pb2 as p; o = p.Order(id=7, state=1, lines=[p.Line(sku='a')], "
        "tags={'x': 1}, big=2**64-1, raw=b'\\xff', number=0.5, next=p.Order(id=8)); "
        "o.at.FromJsonString('2026-01-02T03:04:05.678Z'); o.maybe.value = 0; o.free['a'] = 1; "
        "sys.stdout.buffer.write(o.SerializeToString())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, check=True, timeout=280
    )
    return done.stdout


@given(st.data())
def test_any_bytes_are_a_value_or_a_reason(data: st.DataObject) -> None:
    """The test reads noise, and valid values with a byte changed, removed or added."""
    schema = data.draw(st.sampled_from(_SAMPLES))
    raw = bytearray(_avro(AVRO_VALUE) if schema.kind == "avro" else json.dumps(JSON_VALUE).encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    values = [bytes(raw), bytes(cut), bytes(raw) + b"x", data.draw(st.binary(max_size=40))]
    found, failures = _decode(schema, *values)
    for row, reason in failures:
        assert found[row] is None
        assert reason


_SAMPLES = [
    _BY_AVRO,
    _BY_JSON,
    TypedSchema("avro", b'["null", "double", {"type": "array", "items": "float"}]'),
    TypedSchema("avro", b'"string"'),
    TypedSchema("json", b"true"),
]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "the JSON Schema is not valid JSON"),
        ("a.json", '{"type": "wrong"}', "the JSON Schema is not valid"),
        ("a.json", '{"$ref": "http://elsewhere"}', "only references within the file"),
        ("a.json", '{"$ref": "#/$defs/x"}', "'#/$defs/x', which does not exist in it"),
        ("a.avsc", '{"type": "recrd"}', "the Avro schema is not valid"),
        ("a.proto", "message {", "does not compile: a.proto:1"),
        ("a.desc", "not one", "is not a FileDescriptorSet"),
        ("a.xsd", "", "cannot tell what kind of schema"),
    ],
)
def test_schemas_that_are_none(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(PipelineError) as caught:
        load_schema(path)
    assert message in " ".join(str(caught.value).split())


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(DestinationError, match="'key_a'"):
        Layout(
            key=_json(a={"type": "string"}), value=_json(key_a={"type": "string"}), is_flat=True
        ).schema()


def test_fields_become_columns(lake: Lake, tmp_path: Path) -> None:
    name = lake.written([(True, [(b'{"k": 1}', b'{"a": "x", "offset": 5}'), (b'{"k": 2}', None)])])
    layout = Layout(
        key=_json(k={"type": "integer"}),
        value=_json(a={"type": "string"}, offset={"type": "integer"}),
        is_flat=True,
    )
    lake.export(name, layout=layout)
    import pyarrow.dataset as pads  # and with it pandas, which every worker would import

    table = pads.dataset(tmp_path / f"topic={name}").to_table(
        columns=["offset", "key_k", "a", "value_offset"]
    )
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (0, 1, "x", 5),
        (1, 2, None, None),
    ]


_SOME_WRONG = [
    (True, [(b"k", b'{"a": 1}'), (b"k", b"no"), (b"k", b'{"a": 3}'), (b"k", b'{"a": "x"}')])
]


def test_a_record_that_does_not_fit_fails_the_export(lake: Lake, place: Any) -> None:
    """One message names it, nothing becomes visible, and the corrected run exports everything."""
    name = lake.topic(2)
    lake.write(name, _SOME_WRONG, partition=1)
    layout = Layout(value=_json(a={"type": "integer"}))
    from lacuna.pipeline.spark_errors import job_errors

    with (
        pytest.raises(
            UndecodableRecordError, match=rf"^topic {name}, partition 1, offset 1: the value"
        ),
        job_errors(),
    ):
        lake.export(name, to=place.url, layout=layout)
    assert place.rows(name) == []
    assert place.names("_staging") == []
    report = lake.export(name, to=place.url, layout=layout, on_error="null")
    assert (report.records, report.misfits) == (4, 2)
    assert [row[4] for row in place.rows(name)] == [{"a": 1}, None, {"a": 3}, None]


@pytest.mark.slow
def test_a_run_that_failed_binds_nobody(lake: Lake, place: Any) -> None:
    """A corrected schema may have other columns and partitions, because nothing was visible."""
    name = lake.written([(True, [(b"k", b'{"a": "x"}')])])
    wrong = Layout(value=_json(a={"type": "integer"}), partition_by="day")
    mended = Layout(value=_json(a={"type": "string"}), partition_by="hour")
    for _ in range(2):
        with pytest.raises(Exception, match="correct the schema"):
            lake.export(name, to=place.url, layout=wrong)
    assert lake.export(name, to=place.url, layout=mended).records == 1
    assert [row[4] for row in place.rows(name)] == [{"a": "x"}]
    lake.write(name, [(True, [(b"k", b'{"a": "y", "b": "z"}')])])
    added = Layout(value=_json(a={"type": "string"}, b={"type": "integer"}), partition_by="hour")
    with pytest.raises(Exception, match="correct the schema"):
        lake.export(name, to=place.url, layout=added)
    with pytest.raises(DestinationError, match="has different columns"):
        lake.export(name, to=place.url, layout=replace(wrong, partition_by="hour"))
    added = Layout(value=_json(a={"type": "string"}, b={"type": "string"}), partition_by="hour")
    assert lake.export(name, to=place.url, layout=added).records == 1


@pytest.mark.slow
def test_quarantine_keeps_records_as_they_came(lake: Lake, place: Any, tmp_path: Path) -> None:
    name = lake.written(_SOME_WRONG)
    layout = Layout(value=_json(a={"type": "integer"}))
    report = lake.export(name, to=place.url, layout=layout, on_error="quarantine")
    assert (report.records, report.misfits, report.quarantined) == (2, 2, 2)
    assert [row[4] for row in place.rows(name)] == [{"a": 1}, {"a": 3}]
    (hidden,) = place.names(f"topic={name}/run=000001/_quarantine")
    lake.export(
        name, to=str(tmp_path / "table"), format="iceberg", layout=layout, on_error="quarantine"
    )
    (beside,) = (tmp_path / "table").glob("lacuna/*/_quarantine/**/*.parquet")
    files = [beside]
    if not place.url.startswith("s3"):
        files.append(Path(place.url, hidden))
    for file in files:
        kept = pq.read_table(file).to_pylist()
        assert [(row["offset"], row["value"]) for row in kept] == [(1, b"no"), (3, b'{"a": "x"}')]
        assert kept[1]["reason"] == "value: $.a: 'x' is not of type 'integer'"


def test_quarantine_of_all_records(lake: Lake) -> None:
    name = lake.written([(True, [(b"k", b"no")] * 3)])
    layout = Layout(value=_json(a={"type": "object", "additionalProperties": {"type": "integer"}}))
    report = lake.export(name, layout=layout, on_error="quarantine")
    assert (report.records, report.misfits, report.quarantined) == (0, 3, 3)


def test_confluent_prefixed_avro(lake: Lake, tmp_path: Path) -> None:
    name = lake.topic()
    head = struct.pack(">bi", 0, 17)
    lake.write(name, [(True, [(None, head + _avro(AVRO_VALUE))])])
    lake.export(name, layout=Layout(value=replace(_BY_AVRO, has_prefix=True)))
    import pyarrow.dataset as pads

    (row,) = pads.dataset(tmp_path / f"topic={name}").to_table().to_pylist()
    assert row["value"]["amount"] == decimal.Decimal("12.34")
