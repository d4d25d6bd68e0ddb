"""DescribeClientQuotas and AlterClientQuotas."""

from collections.abc import Sequence

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import client_quotas as wire
from tests.agent.apis.clusters import Setup

EXACT, DEFAULT, ANY = range(3)
ALICE = wire.EntityData("user", "alice")
EVERY_USER = wire.EntityData("user", None)
APP = wire.EntityData("client-id", "app")
CONNECTIONS = wire.OpData("connection_creation_rate", 5.0, remove=False)
RATE = wire.OpData("producer_byte_rate", 1024.0, remove=False)


async def alter(
    setup: Setup, *entries: wire.EntryData, version: int = 1, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    answer = await setup.client.call(version, wire.AlterClientQuotasRequest(entries, validate_only))
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.entries]


async def describe(
    setup: Setup, *components: wire.ComponentData, strict: bool = False, version: int = 1
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    answer = await setup.client.call(version, wire.DescribeClientQuotasRequest(components, strict))
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


@pytest.mark.parametrize("version", range(2))
async def test_quotas_are_set_described_and_removed(setup: Setup, version: int) -> None:
    done = await alter(
        setup,
        wire.EntryData([ALICE], [RATE, wire.OpData("request_percentage", 12.5, remove=False)]),
        wire.EntryData([ALICE, APP], [RATE]),
        wire.EntryData([EVERY_USER], [RATE]),
        version=version,
    )
    assert done == [(ErrorCode.NONE, None)] * 3
    alice = (("user", "alice"),)
    of_app = (("client-id", "app"), ("user", "alice"))
    every = (("user", None),)
    rate = {"producer_byte_rate": 1024.0}
    found = await describe(setup, version=version)
    assert found == {alice: {**rate, "request_percentage": 12.5}, of_app: rate, every: rate}
    by_name = wire.ComponentData("user", EXACT, "alice")
    assert (await describe(setup, by_name)).keys() == {alice, of_app}
    assert (await describe(setup, by_name, strict=True)).keys() == {alice}
    assert await describe(setup, wire.ComponentData("user", DEFAULT, None)) == {every: rate}
    removed = wire.OpData("producer_byte_rate", 0.0, remove=True)
    assert await alter(setup, wire.EntryData([EVERY_USER], [removed])) == [(ErrorCode.NONE, None)]
    assert await describe(setup, wire.ComponentData("user", DEFAULT, None)) == {}


async def test_an_address_is_kept_in_its_one_form(setup: Setup) -> None:
    long = wire.EntityData("ip", "0:0:0:0:0:0:0:1")
    assert await alter(setup, wire.EntryData([long], [CONNECTIONS])) == [(ErrorCode.NONE, None)]
    for name in ("::1", "0:0:0:0:0:0:0:1"):
        found = await describe(setup, wire.ComponentData("ip", EXACT, name))
        assert found == {(("ip", "::1"),): {"connection_creation_rate": 5.0}}


async def test_what_is_only_validated_changes_nothing(setup: Setup) -> None:
    entry = wire.EntryData([ALICE], [RATE])
    assert await alter(setup, entry, validate_only=True) == [(ErrorCode.NONE, None)]
    assert await describe(setup) == {}


@pytest.mark.parametrize(
    ("entity", "change", "words"),
    [
        ([], RATE, "empty client quota entity"),
        ([wire.EntityData("planet", "x")], RATE, "entity type: planet"),
        ([ALICE, ALICE], RATE, "Duplicate"),
        ([wire.EntityData("user", "")], RATE, "Empty"),
        ([wire.EntityData("ip", "127.0.0.1"), ALICE], RATE, "combination"),
        ([wire.EntityData("ip", "127.0.0.1")], RATE, "key producer_byte_rate"),
        ([ALICE], CONNECTIONS, "key connection"),
        ([wire.EntityData("ip", "host.example")], CONNECTIONS, "not an IP address"),
        (
            [wire.EntityData("ip", "::1")],
            wire.OpData("connection_creation_rate", 3e9, remove=False),
            "too large",
        ),
        ([ALICE], wire.OpData("producer_byte_rate", 0.0, remove=False), "greater than 0"),
        ([ALICE], wire.OpData("producer_byte_rate", -1.0, remove=False), "greater than 0"),
        ([ALICE], wire.OpData("producer_byte_rate", float("nan"), remove=False), "greater than 0"),
        ([ALICE], wire.OpData("producer_byte_rate", 1.5, remove=False), "fractional"),
    ],
)
async def test_an_invalid_entry_is_refused_and_the_others_are_made(
    setup: Setup, entity: Sequence[wire.EntityData], change: wire.OpData, words: str
) -> None:
    refused, made = await alter(
        setup, wire.EntryData(entity, [change]), wire.EntryData([APP], [RATE])
    )
    assert refused[0] == ErrorCode.INVALID_REQUEST
    assert words in str(refused[1])
    assert made == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([wire.ComponentData("planet", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([wire.ComponentData("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([wire.ComponentData("user", ANY, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([wire.ComponentData("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([wire.ComponentData("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([wire.ComponentData("user", 3, None)], ErrorCode.INVALID_REQUEST),
        (
            [wire.ComponentData("user", ANY, None), wire.ComponentData("ip", ANY, None)],
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    setup: Setup, components: Sequence[wire.ComponentData], code: ErrorCode
) -> None:
    answer = await setup.client.call(1, wire.DescribeClientQuotasRequest(components))
    assert (answer.error_code, answer.entries) == (code, None)
