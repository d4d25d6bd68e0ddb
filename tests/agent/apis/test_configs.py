"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources at every version, and their errors."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from lacuna.controlplane.shared.broker_configs import LOG_DIR, TOPIC_CONFIG_OF
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import APPEND, DELETE, SET
from lacuna.wire.messages import configs as wire
from tests.agent.apis.clusters import INVALID_CONFIG, INVALID_REQUEST, Setup, topic
from tests.agent.harness import RawClient

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 2, 3, 5


async def describe(
    setup: Setup, kind: int, name: str, keys: Sequence[str] | None = None, version: int = 4
) -> Any:
    """Return the result for one resource."""
    resources = [wire.DescribeConfigsResource(kind, name, keys)]
    answer = await setup.client.call(version, wire.DescribeConfigsRequest(resources, True, True))
    (found,) = answer.results
    return found


async def described(setup: Setup, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    """Return values and sources by name."""
    found = await describe(setup, kind, name)
    return {each.name: (each.value, each.config_source) for each in found.configs}


async def change(
    setup: Setup,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    check: bool = False,
) -> tuple[int, str]:
    """Return the error from IncrementalAlterConfigs for one resource. A change is a name, an operation and a value."""
    resource = wire.AlterConfigsResource(
        kind, name, [wire.AlterableConfig(*each) for each in changes]
    )
    asked = wire.IncrementalAlterConfigsRequest([resource], check)
    (found,) = (await setup.client.call(version, asked)).responses
    assert (found.error_message is None) == (found.error_code == 0)
    return found.error_code, found.error_message or ""


async def alter(
    setup: Setup, operation: int = SET, broker: str = "", **configs: str
) -> tuple[int, str]:
    """Change brokers' configs, and return the error."""
    changes = [
        (name.replace("_", "."), operation, value or None) for name, value in configs.items()
    ]
    return await change(setup, BROKER, broker, *changes)


def whole(kind: int, name: str, **configs: str) -> wire.AlterConfigsRequestAlterConfigsResource:
    """Return a resource for AlterConfigs."""
    rows = [
        wire.AlterConfigsRequestAlterableConfig(key.replace("_", "."), value)
        for key, value in configs.items()
    ]
    return wire.AlterConfigsRequestAlterConfigsResource(kind, name, rows)


async def replace(
    setup: Setup,
    *resources: wire.AlterConfigsRequestAlterConfigsResource,
    version: int = 2,
    check: bool = False,
) -> list[tuple[int, str | None]]:
    """Return the errors from AlterConfigs."""
    answer = await setup.client.call(version, wire.AlterConfigsRequest(resources, check))
    return [(each.error_code, each.error_message) for each in answer.responses]


async def test_loggers_have_their_levels(setup: Setup) -> None:
    log = logging.getLogger("lacuna.agent.fetch")
    before = log.level
    log.setLevel(logging.DEBUG)
    try:
        levels = await described(setup, LOGGER, "1")
    finally:
        log.setLevel(before)
    assert levels["lacuna.agent.fetch"] == ("DEBUG", 6)
    assert set(levels) >= {"root", "lacuna.agent"}


async def test_an_agent_shows_the_defaults_of_topics_and_has_each_config_once(setup: Setup) -> None:
    """They have the names that Kafka's brokers use."""
    found = await describe(setup, BROKER, "1")
    names = [each.name for each in found.configs]
    assert names == sorted(set(names))
    shown = {each.name: (each.value, each.config_source, each.read_only) for each in found.configs}
    assert shown["message.max.bytes"] == ("1048588", 5, False)
    assert shown["log.retention.bytes"] == ("-1", 5, False)
    assert shown["log.dirs"] == (LOG_DIR, 4, True)
    assert shown["node.id"] == shown["broker.id"] == ("1", 4, True)


@pytest.mark.parametrize("version", range(1, 5))
async def test_describe_configs(setup: Setup, version: int) -> None:
    """Synonyms are returned on request (KIP-226), and types from v3 on (KIP-569)."""
    await setup.create_topics(topic("t", configs={"retention.ms": "1000"}))
    node = str(setup.running.context.lease.node_id)
    found = await describe(setup, TOPIC, "t", ("retention.ms", "no.such"), version)
    (config,) = found.configs
    assert (config.value, config.config_source, config.read_only) == ("1000", 1, False)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("retention.ms", "1000", 1)
    ]
    if version >= 3:
        assert config.config_type == 5
        assert config.documentation
    found = await describe(setup, BROKER, node, version=version)
    broker = {each.name: each for each in found.configs}
    assert broker["num.partitions"].value == "3"
    assert broker["auto.create.topics.enable"].value == "true"
    assert broker["broker.rack"].value == "a"
    assert all(each.config_source in (4, 5) for each in broker.values())
    assert not broker["message.max.bytes"].read_only
    assert broker["num.partitions"].read_only
    assert (await describe(setup, BROKER, "", version=version)).configs == ()
    for kind, name, code in (
        (TOPIC, "nope", 3),
        (TOPIC, "a/b", 17),
        (BROKER, "77", 42),
        (9, "x", 42),
    ):
        found = await describe(setup, kind, name, version=version)
        assert found.error_code == code
        if name == "nope":
            assert found.error_message == "", "as Kafka: tools have words of their own"


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_everything(setup: Setup, version: int) -> None:
    await setup.create("t", retention_ms="5")
    resource = whole(TOPIC, "t", retention_bytes="9")
    assert await replace(setup, resource, version=version, check=True) == [(0, None)]
    assert setup.configs("t") == {"retention.ms": "5"}
    await replace(setup, resource, version=version)
    assert setup.configs("t") == {"retention.bytes": "9"}


async def test_alter_configs_fails_by_resource(setup: Setup) -> None:
    """A resource that is named twice fails both times, while another one is altered."""
    await setup.create("t", retention_ms="5")
    await setup.create("u")
    others = [whole(kind, "1", a="b") for kind in (BROKER, LOGGER, 16, 77, GROUP)]
    twice = whole(TOPIC, "t")
    found = await replace(setup, twice, whole(TOPIC, "u", segment_ms="7"), twice, *others)
    assert [code for code, _ in found] == [42, 0, 42, 42, 42, 42, 42, INVALID_CONFIG]
    assert all(message for code, message in found if code)
    assert setup.configs("t") == {"retention.ms": "5"}
    assert setup.configs("u") == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (BROKER, INVALID_REQUEST),
        (LOGGER, INVALID_REQUEST),
        (16, INVALID_REQUEST),
        (GROUP, INVALID_CONFIG),
    ],
)
async def test_what_is_not_there_can_be_deleted(setup: Setup, kind: int, refused: int) -> None:
    """Tools delete configs that they might have set, such as the throttles in kafka-reassign-partitions --verify."""
    assert await change(setup, kind, "1", ("a", DELETE, None)) == (0, "")
    code, _ = await change(setup, kind, "1", ("a", SET, "x"))
    assert code == refused


@pytest.mark.parametrize("version", range(3))
async def test_groups_have_configs_of_their_own(setup: Setup, version: int) -> None:
    """They are set by AlterConfigs or one by one, shown with their source, and listed while any exist."""

    async def shown(name: str) -> dict[str, tuple[str, int]]:
        result = await describe(setup, GROUP, name)
        assert not any(each.read_only for each in result.configs)
        found = {each.name: (each.value, each.config_source) for each in result.configs}
        assert found["share.auto.offset.reset"] == ("latest", 5)
        return {key: found[key] for key in (session, interval)}

    async def listed() -> list[str]:
        answer = await setup.client.call(1, wire.ListConfigResourcesRequest([GROUP]))
        return [each.resource_name for each in answer.config_resources]

    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert await shown("g") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == []
    assert await change(setup, GROUP, "g", (interval, SET, "6000")) == (0, "")
    assert await shown("g") == {session: ("45000", 5), interval: ("6000", 8)}
    resource = whole(GROUP, "g", consumer_session_timeout_ms="50000")
    assert await replace(setup, resource, version=version) == [(0, None)]
    assert await shown("g") == {session: ("50000", 8), interval: ("5000", 5)}
    assert await shown("h") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == ["g"]
    code, message = await change(setup, GROUP, "g", (session, SET, "60001"))
    assert code == INVALID_CONFIG
    assert "must be in the range 45000 to 60000" in message
    assert await replace(setup, whole(GROUP, "g"), version=version) == [(0, None)]
    assert await listed() == []


@pytest.mark.parametrize("version", [0, 1])
async def test_incremental_alter_configs(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t"))
    name = "retention.ms"

    async def code_of(
        *changes: tuple[str, int, str | None], kind: int = TOPIC, of: str = "t", check: bool = False
    ) -> int:
        code, _ = await change(setup, kind, of, *changes, version=version, check=check)
        return code

    assert await code_of((name, SET, "5"), check=True) == 0
    assert setup.configs("t") == {}
    assert await code_of((name, SET, "5")) == 0
    assert setup.configs("t") == {name: "5"}
    assert await code_of((name, SET, "6"), ("no.such", SET, "1")) == 40
    assert await code_of((name, SET, None)) == 42
    assert await code_of((name, SET, "6"), (name, DELETE, None)) == 42
    assert await code_of((name, APPEND, "6")) == 40
    assert await code_of((name, SET, "6"), of="nope") == 3
    assert await code_of(("num.partitions", SET, "6"), kind=BROKER, of="1") == 42
    assert await code_of(("x", SET, "6"), kind=9) == 42
    assert setup.configs("t") == {name: "5"}
    assert await code_of((name, DELETE, None)) == 0
    assert setup.configs("t") == {}


async def test_a_resource_named_twice_is_refused(setup: Setup) -> None:
    await setup.create_topics(topic("t"))
    changes = [wire.AlterableConfig("retention.ms", SET, "5")]
    resource = wire.AlterConfigsResource(TOPIC, "t", changes)
    asked = wire.IncrementalAlterConfigsRequest([resource, resource])
    answer = await setup.client.call(1, asked)
    assert [each.error_code for each in answer.responses] == [42, 42]


@pytest.mark.parametrize("version", range(2))
async def test_list_config_resources(setup: Setup, version: int) -> None:
    """v0 requests only client metrics subscriptions."""
    await setup.create("t")
    answer = await setup.client.call(version, wire.ListConfigResourcesRequest())
    assert answer.error_code == 0
    named = [
        (each.resource_type, each.resource_name) for each in answer.config_resources if version
    ]
    assert named == ([(2, "t"), (4, "1"), (8, "1")] if version else [])
    assert len(answer.config_resources) == len(named)


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
        ({"log_retention_ms": "x"}, "", ErrorCode.INVALID_REQUEST, "log.retention.ms"),
        ({"log_retention_ms": "1"}, "99", ErrorCode.INVALID_REQUEST, "Broker 99 does not exist"),
        ({"log_retention_ms": "1"}, "one", ErrorCode.INVALID_REQUEST, "its id, not 'one'"),
        ({"log_dirs": "/x"}, "", ErrorCode.INVALID_REQUEST, "dynamically: log.dirs"),
        ({"num_io_threads": "0"}, "1", ErrorCode.INVALID_REQUEST, "num.io.threads: Value must be"),
        ({"log_cleaner_io_max_bytes_per_second": "x"}, "", ErrorCode.INVALID_REQUEST, "DOUBLE"),
        ({"max_connections": "0"}, "", ErrorCode.INVALID_REQUEST, "max.connections"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_the_reason(
    setup: Setup, configs: dict[str, str], broker: str, code: ErrorCode, words: str
) -> None:
    found, message = await alter(setup, SET, broker, **configs)
    assert found == code
    assert words in message
    assert await described(setup, BROKER, "") == {}


async def test_one_broker_has_configs_of_its_own(setup: Setup) -> None:
    """They override those of all brokers; configs that only tune files and threads are checked and shown."""
    node_id = str(setup.running.context.lease.node_id)
    assert await alter(setup, num_io_threads="4", max_connections="50") == (0, "")
    assert await alter(setup, SET, node_id, num_io_threads=" 5 ", max_connections="40") == (0, "")
    shown = await described(setup, BROKER, node_id)
    assert shown["num.io.threads"] == ("5", DYNAMIC_BROKER)
    assert shown["max.connections"] == ("40", DYNAMIC_BROKER)
    assert shown["log.cleaner.threads"] == ("1", DEFAULT)
    assert await described(setup, BROKER, "") == {
        "num.io.threads": ("4", DYNAMIC_DEFAULT_BROKER),
        "max.connections": ("50", DYNAMIC_DEFAULT_BROKER),
    }
    assert await alter(setup, DELETE, node_id, num_io_threads="", max_connections="") == (0, "")
    shown = await described(setup, BROKER, node_id)
    assert shown["num.io.threads"] == ("4", DYNAMIC_DEFAULT_BROKER)


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
    """Each topic config with a broker default in Kafka has one here, and no two share one."""
    assert len(set(TOPIC_CONFIG_OF.values())) == len(TOPIC_CONFIG_OF)
    assert TOPIC_CONFIG_OF["message.max.bytes"] == "max.message.bytes"
    assert TOPIC_CONFIG_OF["compression.type"] == "compression.type"
