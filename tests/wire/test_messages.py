"""Tests messages and their bytes at every version, in both forms of the kernel, against Kafka's own classes (S24)."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.wire import generator, kernel
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from lacuna.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from lacuna.wire.messages.groups import FindCoordinatorRequest
from lacuna.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestTopic
from lacuna.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from lacuna.wire.messages.topics import MetadataRequest, MetadataResponse, MetadataResponseTopic
from lacuna.wire.messages.transactions import END_TXN_REQUEST, EndTxnRequest, EndTxnResponse
from tests.golden import messages as golden
from tests.messages import MESSAGES, versions_of
from tests.wire.samples import KAFKAS, in_kafkas_json, of_struct

Messages = dict[str, Message[Any]]
few = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", MESSAGES)
@few
@given(data=st.data())
def test_what_is_written_is_read(forms: list[Messages], name: str, data: st.DataObject) -> None:
    """The test uses the oldest version, the newest, and one other. Kafka's own bytes cover all of them."""
    versions = versions_of(MESSAGES[name])
    for version in {versions[0], versions[-1], data.draw(st.sampled_from(versions))}:
        value = data.draw(of_struct(MESSAGES[name].body, version))
        written = MESSAGES[name].write(value, version)
        shorter = data.draw(st.integers(0, len(written)))
        others = data.draw(st.binary(max_size=100))
        for messages in forms:
            message = messages[name]
            assert message.write(value, version) == written
            again = message.read(memoryview(written), version)
            assert again == value
            assert type(again) is type(value)
            _check_what_is_cut_off(message, written, {0, shorter, len(written) - 1}, version)
            _check_elements_written_beforehand(message, value, written, version)
        assert len({_outcome(each[name], others, version) for each in (*forms, MESSAGES)}) == 1


def _check_what_is_cut_off(
    message: Message[Any], written: bytes, sizes: set[int], version: int
) -> None:
    for size in sizes & set(range(len(written))):
        with pytest.raises(MalformedMessage):
            message.read(memoryview(written)[:size], version)


def _check_elements_written_beforehand(
    message: Message[Any], value: Any, written: bytes, version: int
) -> None:
    """Check that elements written in parts, including nested arrays, give the same bytes as one message."""
    for field, elements in value._asdict().items():
        layout = message.body.fields[value._fields.index(field)]
        is_written = layout.is_array and layout.is_in(version) and layout.tag is None
        if not is_written or elements is None:
            continue
        encoded = message.codec.add_elements(None, (), version, (field,))
        for element in elements:
            message.codec.add_elements(encoded, [element], version, (field,))
        assert encoded.count == len(elements)
        assert encoded.size == sum(map(len, encoded.buffers))
        assert message.write(value._replace(**{field: encoded}), version) == written


def _outcome(message: Message[Any], body: bytes, version: int) -> str:
    """Return the result for arbitrary bytes."""
    try:
        return repr(message.read(memoryview(body), version))
    except MalformedMessage as error:
        return str(error)


@pytest.mark.parametrize("name", KAFKAS)
def test_the_bytes_are_kafkas(forms: list[Messages], name: str) -> None:
    """Bytes from Kafka's own classes decode to the expected values, and these encode to the same bytes."""
    of = golden.requests if name.endswith("_REQUEST") else golden.responses
    samples = of(MESSAGES[name].api_key)
    assert {each.version for each in samples} == set(versions_of(MESSAGES[name]))
    for version, _, body, values in samples:
        for message in (each[name] for each in forms):
            value = message.read(memoryview(body), version)
            assert in_kafkas_json(message.body, value, version) == values
            assert message.write(value, version) == body


def test_lengths_that_lie_take_no_memory(messages: Messages) -> None:
    """At every position of a request, the test puts the largest length, the smallest, and a null."""
    topics = (OffsetCommitRequestTopic("t", partitions=()),) * 3
    request = OffsetCommitRequest("group", 1, "member", "instance", topics=topics)
    odd = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f"]
    read = messages["OFFSET_COMMIT_REQUEST"].read
    for version in (0, 7, 9):
        body = messages["OFFSET_COMMIT_REQUEST"].write(request, version)
        tracemalloc.start()
        try:
            for at in range(len(body)):
                for value in odd:
                    try:
                        read(memoryview(body[:at] + value + body[at + len(value) :]), version)
                    except MalformedMessage:
                        continue
            # Other threads, of a cluster that the tests share, allocate as well.
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_text_that_is_not_utf_8_is_replaced_as_in_kafka(messages: Messages) -> None:
    """librdkafka returns metadata with arbitrary bytes when it commits offsets that it has listed."""
    for version, body in (
        (0, b"\0\x04t\xff\xfei\0\0\0\0\0\0\0\7\0\0\1"),
        (3, b"\5t\xff\xfei\0\0\0\0\0\0\0\7\0\0\1\0"),
    ):
        value = messages["END_TXN_REQUEST"].read(memoryview(body), version)
        assert value.transactional_id == "t\ufffd\ufffdi"


@pytest.mark.parametrize(
    ("name", "version", "body", "says"),
    [
        ("END_TXN_REQUEST", 0, b"\xff\xff", "EndTxnRequest.transactional_id is null, which is not allowed"),
        ("END_TXN_REQUEST", 3, b"\x00", "EndTxnRequest.transactional_id is null, which is not allowed"),
        ("END_TXN_REQUEST", 0, b"\0\x05ab", "EndTxnRequest.transactional_id has 5 bytes, but only 2 are left"),
        ("END_TXN_REQUEST", 3, b"\xff\xff\xff\xff\xff\x01", "a varint is longer than 32 bits"),
        ("METADATA_REQUEST", 0, b"\xff\xff\xff\xff", "MetadataRequest.topics is null, which is not allowed"),
        (
            "OFFSET_COMMIT_REQUEST",
            0,
            b"\0\0\0\0\0\x03" + bytes(17),
            "OffsetCommitRequest.topics has 3 elements, more than 17 bytes can hold",
        ),
        (
            "FIND_COORDINATOR_REQUEST",
            3,
            b"\x81\x80\x02" + b"g" * 0x8000 + b"\0\0",
            "FindCoordinatorRequest.key has 32768 bytes; a string may have at most 32767",
        ),
        ("END_TXN_REQUEST", 0, b"\0\x01t", "the message ends early, after 3 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    messages: Messages, name: str, version: int, body: bytes, says: str
) -> None:
    with pytest.raises(MalformedMessage) as error:
        messages[name].read(memoryview(body), version)
    assert str(error.value).startswith(says)


def test_tagged_fields_that_are_unknown_are_passed_over(messages: Messages) -> None:
    """Tests KIP-482."""
    request = EndTxnRequest("t", 7, 1, True)
    body = messages["END_TXN_REQUEST"].write(request, 3)
    assert body.endswith(b"\0")
    longer = body[:-1] + b"\x02\x05\x00\x7f\x01x"
    assert messages["END_TXN_REQUEST"].read(memoryview(longer), 3) == request
    with pytest.raises(MalformedMessage, match="ends early"):
        messages["END_TXN_REQUEST"].read(memoryview(longer[:-1]), 3)


def test_records_are_views_of_the_request(messages: Messages) -> None:
    data = PartitionProduceData(3, memoryview(b"payload"))
    topics = [TopicProduceData("t", partition_data=[data, PartitionProduceData(4)])]
    body = messages["PRODUCE_REQUEST"].write(ProduceRequest(topic_data=topics), 9)
    read = messages["PRODUCE_REQUEST"].read(memoryview(body), 9)
    first, second = read.topic_data[0].partition_data
    assert first.records.obj is body
    assert (bytes(first.records), second.records) == (b"payload", None)


@pytest.mark.parametrize("version", range(19))
def test_records_are_written_as_the_buffers_that_they_are(messages: Messages, version: int) -> None:
    records = (memoryview(b"first batch"), b"second")
    partitions = [
        PartitionData(0, records=records),
        PartitionData(1),
        PartitionData(2, records=None),
    ]
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    buffers = messages["FETCH_RESPONSE"].buffers(response, version)
    assert [type(buffer) for buffer in buffers] == [bytes, memoryview, bytes, bytes]
    assert buffers[1] is records[0]
    assert buffers[2] is records[1]
    written = b"".join(buffers)
    assert written == messages["FETCH_RESPONSE"].write(response, version)
    again = messages["FETCH_RESPONSE"].read(memoryview(written), version)
    said = [partition.records for partition in again.responses[0].partitions]
    assert said == [(b"first batchsecond",), (), None]


@pytest.mark.parametrize("name", ["PRODUCE_REQUEST", "FETCH_REQUEST"])
def test_nothing_may_follow_what_is_exact(messages: Messages, name: str) -> None:
    for version in versions_of(MESSAGES[name]):
        body = messages[name].write(MESSAGES[name].body.make(), version)
        with pytest.raises(MalformedMessage, match="1 bytes follow the end of"):
            messages[name].read(memoryview(body + b"\0"), version)
    body = messages["END_TXN_REQUEST"].write(EndTxnRequest("t"), 3)
    assert messages["END_TXN_REQUEST"].read(memoryview(body + b"\0"), 3) == EndTxnRequest("t")


@pytest.mark.parametrize(
    "fields", [{"given": 1}, {"error_code": 1, "throttle_time_ms": 2}], ids=["no field", "twice"]
)
def test_messages_are_made_of_their_fields_alone(fields: dict[str, int]) -> None:
    """When compiled, the kernel constructs instances itself."""
    assert EndTxnResponse(5, **{"error_code": 7}) == (5, 7, -1, -1)  # noqa: PIE804 - a name made at run time
    with pytest.raises(TypeError):
        EndTxnResponse(5, **fields)
    with pytest.raises(TypeError):
        EndTxnResponse(*range(5))


def test_what_a_version_lacks_is_left_out_and_read_as_its_default(messages: Messages) -> None:
    request = OffsetCommitRequest("g", 5, "m", "i", 9)
    written = messages["OFFSET_COMMIT_REQUEST"].write(request, 0)
    assert written == b"\0\x01g\0\0\0\0"
    assert messages["OFFSET_COMMIT_REQUEST"].read(memoryview(written), 0) == OffsetCommitRequest(
        "g"
    )


@pytest.mark.parametrize(
    ("name", "version", "value", "error", "says"),
    [
        ("END_TXN_RESPONSE", 0, EndTxnResponse(error_code=1 << 15), OverflowError, "does not fit|too (large|big)"),
        ("END_TXN_RESPONSE", 5, EndTxnResponse(producer_id=1 << 63), OverflowError, "does not fit|too (large|big)"),
        ("END_TXN_RESPONSE", 0, EndTxnRequest(), TypeError, "not a EndTxnRequest"),
        (
            "METADATA_RESPONSE",
            9,
            MetadataResponse(topics=[MetadataResponseTopic(name=None)]),
            ValueError,
            "MetadataResponseTopic.name is null, which is not allowed",
        ),
        (
            "METADATA_RESPONSE",
            12,
            MetadataResponse(topics=[MetadataResponseTopic(topic_id=b"short")]),
            ValueError,
            "an id must have 16 bytes",
        ),
        ("METADATA_REQUEST", 0, MetadataRequest(topics=None), ValueError, "MetadataRequest.topics is null"),
        (
            "FIND_COORDINATOR_REQUEST",
            3,
            FindCoordinatorRequest(key="k" * 0x8000),
            ValueError,
            "FindCoordinatorRequest.key has 32768 bytes; a string may have at most 32767",
        ),
    ],
)  # fmt: skip
def test_what_has_no_place_in_a_message_is_not_written(
    messages: Messages, name: str, version: int, value: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        messages[name].write(value, version)


def test_nothing_of_one_message_is_left_in_the_next(messages: Messages) -> None:
    """When compiled, messages share one buffer, which a failed message leaves half full."""
    message = messages["END_TXN_RESPONSE"]
    right = message.write(EndTxnResponse(1, 2, 3, 4), 5)
    for wrong in (EndTxnResponse(1, 2, 3, 1 << 15), EndTxnRequest(), EndTxnResponse(1, 2, None)):  # type: ignore[arg-type]
        with pytest.raises((OverflowError, TypeError)):
            message.write(wrong, 5)
        assert message.write(EndTxnResponse(1, 2, 3, 4), 5) == right
    fetched = messages["FETCH_RESPONSE"]
    records = [PartitionData(records=(bytes(20_000),)), PartitionData(records=(b"few",))]
    large, small = (
        FetchResponse(responses=[FetchableTopicResponse("t" * 20_000, partitions=[data])])
        for data in records
    )
    written = fetched.write(small, 12)
    assert fetched.write(large, 12)[-20_003:] == bytes(20_003)
    assert fetched.write(small, 12) == written
    assert b"".join(fetched.buffers(small, 12)) == written


@pytest.mark.parametrize("version", [-1, 6, 1 << 20])
def test_a_version_that_there_is_not(messages: Messages, version: int) -> None:
    with pytest.raises(KeyError, match=f"there is no version {version} of EndTxnRequest"):
        messages["END_TXN_REQUEST"].read(memoryview(b""), version)


def test_only_views_of_bytes_are_read() -> None:
    """When compiled, the kernel accesses their memory directly."""
    for other in (b"\0\0", memoryview(b"\0\0\0\0")[::2], memoryview(b"\0\0").cast("h")):
        with pytest.raises(TypeError):
            END_TXN_REQUEST.read(other, 0)  # type: ignore[arg-type]


LONG = {
    "one array": (kernel.LONGEST_ARRAY, 1, True),
    "one array too long": (kernel.LONGEST_ARRAY + 1, 1, False),
    "two arrays too long together": (kernel.MOST_ELEMENTS // 2, 2, False),
}


@pytest.mark.parametrize("name", LONG)
def test_arrays_have_so_many_elements(forms: list[Messages], name: str) -> None:
    """As in Kafka, an array that claims to be longer is malformed, even if its bytes exist."""
    count, topics, is_taken = LONG[name]
    partitions = struct.pack(">i", count) + bytes(4 * count)
    topic = b"\0\1t" + partitions
    body = b"\0\1g" + struct.pack(">i", topics) + topic * topics
    for messages in forms:
        read = messages["OFFSET_FETCH_REQUEST"].read
        if is_taken:
            assert len(read(memoryview(body), 1).topics[0].partition_indexes) == count
        else:
            with pytest.raises(MalformedMessage, match="elements, more than the"):
                read(memoryview(body), 1)


def test_a_reader_may_take_fewer_elements(forms: list[Messages]) -> None:
    body = memoryview(struct.pack(">i", 3) + b"\0\1g" * 3)
    for messages in forms:
        message = messages["DESCRIBE_GROUPS_REQUEST"]
        assert message.read(body, 0, 3).groups == ("g",) * 3
        assert message.codec.elements == 3
        with pytest.raises(MalformedMessage, match="3 elements, more than the allowed 2"):
            message.read(body, 0, 2)


@pytest.mark.parametrize("count", [kernel.MOST_TAGS, kernel.MOST_TAGS + 1])
def test_a_struct_has_so_many_tagged_fields(forms: list[Messages], count: int) -> None:
    varint = bytes([count & 0x7F | 0x80, count >> 7])
    for messages in forms:
        read = messages["LIST_PARTITION_REASSIGNMENTS_REQUEST"].read
        body = memoryview(bytes(4) + b"\0" + varint + b"\7\0" * count)
        if count <= kernel.MOST_TAGS:
            assert read(body, 0).topics is None
        else:
            with pytest.raises(
                MalformedMessage, match="tagged fields, more than the allowed 10000"
            ):
                read(body, 0)


@pytest.mark.slow
def test_each_of_many_structs_may_have_tagged_fields(forms: list[Messages]) -> None:
    """Their number is limited together with that of the elements, not per struct."""
    topics = [FetchTopic("t", partitions=[FetchPartition(replica_directory_id=bytes(15) + b"1")])]
    asked = FetchRequest(topics=topics * (kernel.MOST_TAGS + 1))
    for messages in forms:
        message = messages["FETCH_REQUEST"]
        written = memoryview(message.write(asked, 17))
        assert len(message.read(written, 17).topics) == kernel.MOST_TAGS + 1
        assert message.codec.elements == 3 * (kernel.MOST_TAGS + 1)
        with pytest.raises(MalformedMessage):
            message.read(written, 17, 3 * kernel.MOST_TAGS)


@pytest.mark.java
def test_the_messages_are_as_kafka_defines_them(tmp_path: Path) -> None:
    """Run `python -m lacuna.wire.generator` after changing it or Kafka's version."""
    versions = (generator.KAFKA, generator.BEFORE_KAFKA_4)
    generator.write([generator.bring_jar(version, tmp_path) for version in versions], tmp_path)
    assert_same(tmp_path, generator.MESSAGES)


@pytest.mark.java
def test_the_records_of_internal_topics_are_as_kafka_defines_them(tmp_path: Path) -> None:
    jars = {
        name: generator.bring_jar(generator.KAFKA, tmp_path, name) for name in generator.RECORDS
    }
    written = tmp_path / "records.py"
    generator.write_records(jars, written)
    assert written.read_text() == generator.RECORD_MESSAGES.read_text()


def assert_same(written: Path, checked_in: Path) -> None:
    made = {path.name: path.read_text() for path in written.glob("*.py")}
    there = {path.name: path.read_text() for path in checked_in.glob("*.py")}
    assert there.keys() - made.keys() == {"__init__.py"}
    for name, text in made.items():
        assert there[name] == text
