"""ApiVersions, compared with the answer of Apache Kafka 4.4.0 (S9, S24)."""

import json
from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.api import NOT_ADVERTISED, Api, Call
from lacuna.agent.apis import discover
from lacuna.agent.registry import Registry
from lacuna.wire.peers import OWN_KEYS
from tests.agent.doors import made_up_api
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    client_of,
    encode_request,
    make_context,
    serving,
)

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "api_versions_kafka_4_4.json").read_text()
)


#: Kafka always serves the first two, but names them only if a plugin receives the metrics (adr/0017).
UNNAMED = {71, 72, *OWN_KEYS}
#: The APIs whose early versions Kafka 4.0 removed (KIP-896); old clients still use them.
FROM_VERSION_0 = {1, 2, 8, 9, 19, 20, 23, 32, 35}


SOFTWARE = {"client_software_name": "lib", "client_software_version": "1.0"}


async def ask(version: int, **fields: str) -> Any:
    async with client_of(make_context(ScriptedControl())) as client:
        return await client.ask(18, version, **fields)


def test_the_advertised_versions_are_kafkas() -> None:
    """Tests rule S24."""
    golden = GOLDEN["versions"]["5"]["api_keys"]
    registry = discover()
    served = {api.key for api in registry.apis()}
    assert registry.advertised() == {
        key: (0 if key in FROM_VERSION_0 else golden[str(key)][0], golden[str(key)][1])
        for key in sorted(served - UNNAMED)
    }


def test_nothing_is_served_beyond_the_last_version_that_is_advertised() -> None:
    """A regenerated lacuna.wire does not serve a new version by itself."""
    registry = discover()
    served = {api.key: api.max_version for api in registry.apis() if api.key not in UNNAMED}
    assert served == {key: last for key, (_, last) in registry.advertised().items()}


@pytest.mark.parametrize("version", range(6))
async def test_ranges_are_kafkas_of_what_is_served(version: int) -> None:
    """S24: the ranges match at every version, and `serves` includes the versions in between."""
    answer = await ask(version, **(SOFTWARE if version >= 3 else {}))
    golden = GOLDEN["versions"][str(version)]["api_keys"]
    registry = discover()
    assert answer.error_code == 0
    served = {api.key for api in registry.apis()}
    assert [api.api_key for api in answer.api_keys] == sorted(served - UNNAMED)
    for api in answer.api_keys:
        low, high = golden[str(api.api_key)]
        assert api.max_version == high
        assert api.min_version == (0 if api.api_key in FROM_VERSION_0 else low)
        assert all(registry.takes(api.api_key, each) for each in range(low, high + 1))


async def test_features_turn_on_consumer_groups_and_tv2() -> None:
    """S9, S26: features are finalized with a non-negative epoch; ranges from 0 appear only from v4 on."""
    v3, v4 = await ask(3, **SOFTWARE), await ask(4, **SOFTWARE)
    levels = [
        ("group.version", 1),
        ("metadata.version", 33),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    for answer in (v3, v4):
        assert [
            (each.name, each.min_version_level, each.max_version_level)
            for each in answer.finalized_features
        ] == [(name, level, level) for name, level in levels]
        assert answer.finalized_features_epoch >= 0
        golden = GOLDEN["versions"]["4" if answer is v4 else "3"]
        for name, level in levels:
            assert golden["finalized_features"][name][0] == level
    supported = {
        version: {
            each.name: [each.min_version, each.max_version] for each in answer.supported_features
        }
        for version, answer in (("3", v3), ("4", v4))
    }
    served = {name for name, _ in levels}
    for version, ranges in supported.items():
        golden = GOLDEN["versions"][version]["supported_features"]
        assert ranges == {name: golden[name] for name in golden if name in served}


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
async def test_unknown_versions_are_answered_as_v0(version: int) -> None:
    """The bytes are the same as Kafka's."""
    async with client_of(make_context(ScriptedControl())) as client:
        client.send(encode_request(18, version, b"", correlation_id=0x63))
        assert (await client.frame()).hex() == GOLDEN["unsupported_version"]["raw_response_hex"]


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-"])
async def test_bad_software_names_are_invalid_requests(name: str) -> None:
    answer = await ask(3, client_software_name=name, client_software_version="1")
    assert answer.error_code == 42
    assert answer.api_keys == ()


def test_what_is_served_bounds_what_is_said() -> None:
    """S24: a row shows the advertised part of the range if it differs from the range served."""

    async def handle(call: Call, request: bytes) -> bytes:
        raise AssertionError

    def api(
        key: int, low: int, high: int, advertised: tuple[int, int] | None = None
    ) -> Api[bytes, bytes]:
        return made_up_api(key, handle, versions=(low, high), advertised=advertised)

    served = Registry(
        [
            api(2, 1, 11, (0, 10)),
            api(0, 0, 13),
            api(1, 4, 17, (4, 18)),
            api(3, 0, 1, NOT_ADVERTISED),
        ]
    )
    assert list(served.advertised().items()) == [(0, (0, 13)), (1, (4, 17)), (2, (1, 10))]
    assert served.takes(2, 11)
    assert not served.takes(2, 12)
    assert served.takes(3, 1)
    with pytest.raises(ValueError, match="API 1 is registered twice"):
        Registry([api(1, 4, 5), api(1, 6, 7)])


async def test_the_agent_knows_what_its_clients_say_that_they_are() -> None:
    async with (
        serving(make_context(ScriptedControl())) as server,
        RawClient.connected(server.port) as client,
    ):
        await client.ask(18, 0)
        (peer,) = server.peers()
        assert (peer.software.name, peer.software.version) == ("", "")
        await client.ask(18, 3, **SOFTWARE)
        (peer,) = server.peers()
        assert (peer.software.name, peer.software.version) == ("lib", "1.0")
