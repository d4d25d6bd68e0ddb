"""ApiVersions against what Apache Kafka 4.1.0 answered (S9, S24)."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from agent.apis.registry import KAFKA_4_1, Api, Registry, discover
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    encode_request,
    make_context,
    serving,
)

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "api_versions_kafka_4_1.json").read_text()
)
SOFTWARE = {"client_software_name": "lib", "client_software_version": "1.0"}


async def ask(version: int, **fields: str) -> Any:
    async with serving(make_context(ScriptedControl())) as server:
        client = await RawClient.connect(server.port)
        try:
            return await client.ask(18, version, **fields)
        finally:
            await client.close()


def test_the_table_is_what_kafka_advertises() -> None:
    """S24."""
    golden = GOLDEN["versions"]["4"]["api_keys"]
    assert {str(key): list(value) for key, value in KAFKA_4_1.items()} == {
        str(key): golden[str(key)] for key in KAFKA_4_1
    }


@pytest.mark.parametrize("version", range(5))
async def test_ranges_are_kafkas_of_what_is_served(version: int) -> None:
    """S24: at every version, and the versions between are those that `serves` says."""
    answer = await ask(version, **(SOFTWARE if version >= 3 else {}))
    golden = GOLDEN["versions"][str(version)]["api_keys"]
    registry = discover()
    assert answer.error_code == 0
    assert [api.api_key for api in answer.api_keys] == sorted({api.key for api in registry.apis()})
    for api in answer.api_keys:
        low, high = golden[str(api.api_key)]
        assert (api.min_version, api.max_version) == (low, high)
        assert all(registry.takes(api.api_key, each) for each in range(low, high + 1))


async def test_features_turn_on_tv2_and_only_that() -> None:
    """S9: finalized with an epoch that is not negative; the supported range 0-2 only from v4 on."""
    v3, v4 = await ask(3, **SOFTWARE), await ask(4, **SOFTWARE)
    for answer in (v3, v4):
        (feature,) = answer.finalized_features
        assert feature.name == "transaction.version"
        assert (feature.min_version_level, feature.max_version_level) == (2, 2)
        assert answer.finalized_features_epoch >= 0
    assert v3.supported_features == ()
    (supported,) = v4.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (
        "transaction.version",
        0,
        2,
    )


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_unknown_versions_are_answered_as_v0(version: int) -> None:
    """As Kafka, to the byte."""
    async with serving(make_context(ScriptedControl())) as server:
        client = await RawClient.connect(server.port)
        client.send(encode_request(18, version, b"", correlation_id=0x63))
        assert (await client.frame()).hex() == GOLDEN["unsupported_version"]["raw_response_hex"]
        await client.close()


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-"])
async def test_bad_software_names_are_invalid_requests(name: str) -> None:
    answer = await ask(3, client_software_name=name, client_software_version="1")
    assert answer.error_code == 42
    assert answer.api_keys == ()


def test_what_is_served_bounds_what_is_said() -> None:
    """S24: never more than Kafka 4.1 says, never more than is served."""

    async def handle(context: Any, request: Any, peer: Any) -> Any:
        raise AssertionError

    def api(key: int, low: int, high: int) -> Api:
        return Api(key=key, min_version=low, max_version=high, handle=handle)

    both = Registry([api(0, 3, 13), api(0, 0, 2), api(1, 4, 17), api(2, 1, 11)])
    assert both.advertised() == {0: (0, 13), 1: (4, 17), 2: (1, 10)}
    assert both.takes(2, 11)
    assert not both.takes(2, 12)
    with pytest.raises(ValueError, match="API 1 version 5 is registered twice"):
        Registry([api(1, 4, 5), api(1, 5, 6)])


@pytest.mark.parametrize("version", range(3))
async def test_message_sets_are_refused_with_an_error(version: int) -> None:
    """S24: Produce v0-v2, in the answer that those versions can read; without acks the end."""

    def body(acks: int) -> bytes:
        topic = struct.pack(">h", 1) + b"t" + struct.pack(">iii", 1, 7, 3) + b"set"
        return struct.pack(">hii", acks, 1000, 1) + topic

    async with serving(make_context(ScriptedControl())) as server:
        client = await RawClient.connect(server.port)
        client.send(encode_request(0, version, body(1), correlation_id=6))
        expected = struct.pack(">iih", 6, 1, 1) + b"t" + struct.pack(">iihq", 1, 7, 35, -1)
        expected += struct.pack(">q", -1) if version >= 2 else b""
        expected += struct.pack(">i", 0) if version >= 1 else b""
        assert await client.frame() == expected
        client.send(encode_request(0, version, body(0)))
        assert await client.is_closed()
        other = await RawClient.connect(server.port)
        other.send(encode_request(0, version, body(1)[:-1]))
        assert await other.is_closed()
