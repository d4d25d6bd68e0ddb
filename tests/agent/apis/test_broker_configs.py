"""Configs of all brokers (KIP-226): `kafka-configs.sh --entity-type brokers --entity-default --alter`."""

import pytest

from lacuna.controlplane.shared.broker_configs import TOPIC_CONFIG_OF
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import DELETE, SET
from lacuna.wire.messages.describe_configs import (
    DESCRIBE_CONFIGS_REQUEST,
    DESCRIBE_CONFIGS_RESPONSE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from lacuna.wire.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS_REQUEST,
    INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient

TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 3, 5


async def alter(
    setup: Setup, operation: int = SET, broker: str = "", **configs: str
) -> tuple[ErrorCode, str]:
    changes = [
        AlterableConfig(name.replace("_", "."), operation, value or None)
        for name, value in configs.items()
    ]
    answer = await setup.client.call(
        INCREMENTAL_ALTER_CONFIGS_REQUEST,
        INCREMENTAL_ALTER_CONFIGS_RESPONSE,
        1,
        IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, broker, changes)]),
    )
    (found,) = answer.responses
    return ErrorCode(found.error_code), found.error_message or ""


async def described(setup: Setup, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    answer = await setup.client.call(
        DESCRIBE_CONFIGS_REQUEST,
        DESCRIBE_CONFIGS_RESPONSE,
        4,
        DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)]),
    )
    (result,) = answer.results
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def test_a_default_holds_for_topics_that_set_nothing(setup: Setup) -> None:
    await setup.create("old")
    await setup.create("own", retention_ms="7")
    assert await alter(setup, log_retention_ms="1234", message_max_bytes="5000") == (0, "")
    await setup.create("new")
    for name in ("old", "new"):
        assert setup.configs(name) == {"retention.ms": "1234", "max.message.bytes": "5000"}
        shown = await described(setup, TOPIC, name)
        assert shown["retention.ms"] == ("1234", DYNAMIC_DEFAULT_BROKER)
    shown = await described(setup, TOPIC, "own")
    assert shown["retention.ms"] == ("7", DYNAMIC_TOPIC)
    assert shown["max.message.bytes"] == ("5000", DYNAMIC_DEFAULT_BROKER)
    assert await described(setup, BROKER, "") == {
        "log.retention.ms": ("1234", DYNAMIC_DEFAULT_BROKER),
        "message.max.bytes": ("5000", DYNAMIC_DEFAULT_BROKER),
    }
    node_id = str(setup.running.context.lease.node_id)
    shown = await described(setup, BROKER, node_id)
    assert shown["message.max.bytes"] == ("5000", DYNAMIC_DEFAULT_BROKER)
    assert await alter(setup, DELETE, log_retention_ms="", message_max_bytes="") == (0, "")
    assert setup.configs("old") == {}
    assert setup.configs("own") == {"retention.ms": "7"}
    assert await described(setup, BROKER, "") == {}


@pytest.mark.parametrize(
    ("configs", "broker", "code", "words"),
    [
        ({"log_retention_ms": "x"}, "", ErrorCode.INVALID_CONFIG, "retention.ms"),
        ({"log_retention_ms": "1"}, "1", ErrorCode.INVALID_REQUEST, "--entity-default"),
        ({"num_io_threads": "8"}, "", ErrorCode.INVALID_REQUEST, "dynamically: num.io.threads"),
        ({"max_connections": "0"}, "", ErrorCode.INVALID_CONFIG, "max.connections"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_the_reason(
    setup: Setup, configs: dict[str, str], broker: str, code: ErrorCode, words: str
) -> None:
    found, message = await alter(setup, SET, broker, **configs)
    assert found == code
    assert words in message
    assert await described(setup, BROKER, "") == {}


async def test_connections_are_limited_while_agents_run(setup: Setup) -> None:
    port = setup.running.server.port
    second = await RawClient.connect(port)
    assert await alter(setup, max_connections_per_ip="2") == (0, "")
    third = await RawClient.connect(port)
    assert await third.is_closed()
    await second.close()
    assert await alter(setup, DELETE, max_connections_per_ip="") == (0, "")
    assert await alter(setup, max_connections="1") == (0, "")
    fourth = await RawClient.connect(port)
    assert await fourth.is_closed()


def test_the_names_are_kafkas() -> None:
    """Each topic config with a broker default in Kafka has one here, and no two share it."""
    assert len(set(TOPIC_CONFIG_OF.values())) == len(TOPIC_CONFIG_OF)
    assert TOPIC_CONFIG_OF["message.max.bytes"] == "max.message.bytes"
    assert TOPIC_CONFIG_OF["compression.type"] == "compression.type"
