"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources at every version, and their errors."""

import logging
from typing import Any

import pytest

from lacuna.controlplane.shared.broker_configs import LOG_DIR, TOPIC_CONFIG_OF
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import DELETE, SET
from lacuna.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.agent.apis.clusters import INVALID_CONFIG, INVALID_REQUEST, Setup, topic
from tests.agent.harness import RawClient
from tests.messages import nested


async def test_loggers_have_their_levels(setup: Setup) -> None:
    log = logging.getLogger("lacuna.agent.fetch")
    before = log.level
    log.setLevel(logging.DEBUG)
    try:
        resource = nested(
            32, 4, "DescribeConfigsResource", resource_type=8, resource_name="1",
            configuration_keys=None,
        )  # fmt: skip
        answer = await setup.ask(
            32, 4, resources=(resource,), include_synonyms=True, include_documentation=True
        )
    finally:
        log.setLevel(before)
    (found,) = answer.results
    levels = {each.name: (each.value, each.config_source) for each in found.configs}
    assert levels["lacuna.agent.fetch"] == ("DEBUG", 6)
    assert set(levels) >= {"root", "lacuna.agent"}


async def test_an_agent_shows_the_defaults_of_topics_and_has_each_config_once(setup: Setup) -> None:
    """They have the names that Kafka's brokers use."""
    resource = nested(
        32,
        4,
        "DescribeConfigsResource",
        resource_type=4,
        resource_name="1",
        configuration_keys=None,
    )
    answer = await setup.ask(
        32, 4, resources=(resource,), include_synonyms=False, include_documentation=False
    )
    (found,) = answer.results
    names = [each.name for each in found.configs]
    assert names == sorted(set(names))
    shown = {each.name: (each.value, each.config_source, each.read_only) for each in found.configs}
    assert shown["message.max.bytes"] == ("1048588", 5, False)
    assert shown["log.retention.bytes"] == ("-1", 5, False)
    assert shown["log.dirs"] == (LOG_DIR, 4, True)
    assert shown["node.id"] == shown["broker.id"] == ("1", 4, True)


@pytest.mark.parametrize("version", range(1, 5))
async def test_describe_configs(setup: Setup, version: int) -> None:
    """Synonyms on request (KIP-226), and types from v3 on (KIP-569)."""
    await setup.create_topics(topic("t", configs={"retention.ms": "1000"}))
    node = str(setup.running.context.lease.node_id)

    async def describe(kind: int, name: str, keys: tuple[str, ...] | None = None) -> Any:
        resource = nested(
            32,
            version,
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=keys,
        )
        more = {"include_documentation": True} if version >= 3 else {}
        answer = await setup.ask(32, version, resources=(resource,), include_synonyms=True, **more)
        return answer.results[0]

    (config,) = (await describe(2, "t", ("retention.ms", "no.such"))).configs
    assert (config.value, config.config_source, config.read_only) == ("1000", 1, False)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("retention.ms", "1000", 1)
    ]
    if version >= 3:
        assert config.config_type == 5
        assert config.documentation
    broker = {each.name: each for each in (await describe(4, node)).configs}
    assert broker["num.partitions"].value == "3"
    assert broker["auto.create.topics.enable"].value == "true"
    assert broker["broker.rack"].value == "a"
    assert all(each.config_source in (4, 5) for each in broker.values())
    assert not broker["message.max.bytes"].read_only
    assert broker["num.partitions"].read_only
    assert (await describe(4, "")).configs == ()
    codes = [
        (await describe(*asked)).error_code
        for asked in ((2, "nope"), (2, "a/b"), (4, "77"), (9, "x"))
    ]
    assert codes == [3, 17, 42, 42]
    assert (await describe(2, "nope")).error_message == "", (
        "as Kafka: tools have words of their own"
    )


def of_topic(version: int, name: str, **configs: str | None) -> Any:
    """A resource of AlterConfigs."""
    return nested(
        33,
        version,
        "AlterConfigsRequestAlterConfigsResource",
        resource_type=2,
        resource_name=name,
        configs=tuple(
            nested(
                33,
                version,
                "AlterConfigsRequestAlterableConfig",
                name=key.replace("_", "."),
                value=value,
            )
            for key, value in configs.items()
        ),
    )


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_everything(setup: Setup, version: int) -> None:
    await setup.create("t", retention_ms="5")
    resource = of_topic(version, "t", retention_bytes="9")
    (found,) = (await setup.ask(33, version, resources=(resource,), validate_only=True)).responses
    assert (found.error_code, found.error_message) == (0, None)
    assert setup.configs("t") == {"retention.ms": "5"}
    await setup.ask(33, version, resources=(resource,), validate_only=False)
    assert setup.configs("t") == {"retention.bytes": "9"}


async def test_alter_configs_fails_by_resource(setup: Setup) -> None:
    """A resource that is named twice fails both times, and another one is altered."""
    await setup.create("t", retention_ms="5")
    await setup.create("u")
    config = nested(33, 2, "AlterConfigsRequestAlterableConfig", name="a", value="b")
    others = [
        nested(
            33,
            2,
            "AlterConfigsRequestAlterConfigsResource",
            resource_type=kind,
            resource_name="1",
            configs=(config,),
        )
        for kind in (4, 8, 16, 77, 32)
    ]
    asked = (of_topic(2, "t"), of_topic(2, "u", segment_ms="7"), of_topic(2, "t"), *others)
    found = (await setup.ask(33, 2, resources=asked, validate_only=False)).responses
    assert [each.error_code for each in found] == [42, 0, 42, 42, 42, 42, 42, INVALID_CONFIG]
    assert all(each.error_message for each in found if each.error_code)
    assert setup.configs("t") == {"retention.ms": "5"}
    assert setup.configs("u") == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (4, INVALID_REQUEST),
        (8, INVALID_REQUEST),
        (16, INVALID_REQUEST),
        (32, INVALID_CONFIG),
    ],
)
async def test_what_is_not_there_can_be_deleted(setup: Setup, kind: int, refused: int) -> None:
    """Tools delete configs that they might have set, such as the throttles in kafka-reassign-partitions --verify."""

    async def alter(operation: int, value: str | None) -> int:
        config = nested(44, 1, "AlterableConfig", name="a", config_operation=operation, value=value)
        resource = nested(
            44, 1, "AlterConfigsResource", resource_type=kind, resource_name="1", configs=(config,)
        )
        answer = await setup.ask(44, 1, resources=(resource,), validate_only=False)
        (found,) = answer.responses
        return int(found.error_code)

    assert await alter(1, None) == 0
    assert await alter(0, "x") == refused


@pytest.mark.parametrize("version", range(3))
async def test_groups_have_configs_of_their_own(setup: Setup, version: int) -> None:
    """They are set by AlterConfigs or one by one, shown with their source, and listed while there are any."""

    def of_group(key: int, version: int, name: str, **configs: str) -> Any:
        extra = {"config_operation": 0} if key == 44 else {}
        rows = tuple(
            nested(
                key, version, "AlterableConfig", name=key_.replace("_", "."), value=value, **extra
            )
            for key_, value in configs.items()
        )
        return nested(
            key,
            version,
            "AlterConfigsResource",
            resource_type=32,
            resource_name=name,
            configs=rows,
        )

    async def described(name: str) -> dict[str, tuple[str, int]]:
        resource = nested(
            32,
            4,
            "DescribeConfigsResource",
            resource_type=32,
            resource_name=name,
            configuration_keys=None,
        )
        answer = await setup.ask(
            32, 4, resources=(resource,), include_synonyms=True, include_documentation=True
        )
        (result,) = answer.results
        assert not any(each.read_only for each in result.configs)
        shown = {each.name: (each.value, each.config_source) for each in result.configs}
        assert shown["share.auto.offset.reset"] == ("latest", 5)
        return {key_: shown[key_] for key_ in (session, interval)}

    async def listed() -> list[str]:
        answer = await setup.ask(74, 1, resource_types=(32,))
        return [each.resource_name for each in answer.config_resources]

    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert await described("g") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == []
    alone = of_group(44, 1, "g", consumer_heartbeat_interval_ms="6000")
    answer = await setup.ask(44, 1, resources=(alone,), validate_only=False)
    assert answer.responses[0].error_code == 0
    assert await described("g") == {session: ("45000", 5), interval: ("6000", 8)}
    whole = of_group(33, version, "g", consumer_session_timeout_ms="50000")
    answer = await setup.ask(33, version, resources=(whole,), validate_only=False)
    assert answer.responses[0].error_code == 0
    assert await described("g") == {session: ("50000", 8), interval: ("5000", 5)}
    assert await described("h") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == ["g"]
    too_long = of_group(44, 1, "g", consumer_session_timeout_ms="60001")
    answer = await setup.ask(44, 1, resources=(too_long,), validate_only=False)
    assert answer.responses[0].error_code == INVALID_CONFIG
    assert "must be in the range 45000 to 60000" in answer.responses[0].error_message
    answer = await setup.ask(
        33, version, resources=(of_group(33, version, "g"),), validate_only=False
    )
    assert answer.responses[0].error_code == 0
    assert await listed() == []


@pytest.mark.parametrize("version", [0, 1])
async def test_incremental_alter_configs(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t"))
    SET, DELETE, APPEND = 0, 1, 2  # noqa: N806

    async def alter(
        *changes: tuple[str, int, str | None], name: str = "t", kind: int = 2, check: bool = False
    ) -> int:
        configs = tuple(
            nested(44, version, "AlterableConfig", name=key, config_operation=op, value=value)
            for key, op, value in changes
        )
        resource = nested(
            44,
            version,
            "AlterConfigsResource",
            resource_type=kind,
            resource_name=name,
            configs=configs,
        )
        answer = await setup.ask(44, version, resources=(resource,), validate_only=check)
        (found,) = answer.responses
        assert (found.error_message is None) == (found.error_code == 0)
        return int(found.error_code)

    def configs() -> dict[str, str]:
        return dict(setup.running.control.cluster.topics_by_name["t"].configs)

    assert await alter(("retention.ms", SET, "5"), check=True) == 0
    assert configs() == {}
    assert await alter(("retention.ms", SET, "5")) == 0
    assert configs() == {"retention.ms": "5"}
    assert await alter(("retention.ms", SET, "6"), ("no.such", SET, "1")) == 40
    assert await alter(("retention.ms", SET, None)) == 42
    assert await alter(("retention.ms", SET, "6"), ("retention.ms", DELETE, None)) == 42
    assert await alter(("retention.ms", APPEND, "6")) == 40
    assert await alter(("retention.ms", SET, "6"), name="nope") == 3
    assert await alter(("num.partitions", SET, "6"), name="1", kind=4) == 42
    assert await alter(("x", SET, "6"), kind=9) == 42
    assert configs() == {"retention.ms": "5"}
    assert await alter(("retention.ms", DELETE, None)) == 0
    assert configs() == {}


async def test_a_resource_named_twice_is_refused(setup: Setup) -> None:
    await setup.create_topics(topic("t"))
    change = nested(44, 1, "AlterableConfig", name="retention.ms", config_operation=0, value="5")
    resource = nested(
        44, 1, "AlterConfigsResource", resource_type=2, resource_name="t", configs=(change,)
    )
    answer = await setup.ask(44, 1, resources=(resource, resource), validate_only=False)
    assert [each.error_code for each in answer.responses] == [42, 42]


@pytest.mark.parametrize("version", range(2))
async def test_list_config_resources(setup: Setup, version: int) -> None:
    """v0 asks only for client metrics subscriptions."""
    await setup.create("t")
    fields = {"resource_types": ()} if version else {}
    answer = await setup.ask(74, version, **fields)
    assert answer.error_code == 0
    named = [
        (each.resource_type, each.resource_name) for each in answer.config_resources if version
    ]
    assert named == ([(2, "t"), (4, "1"), (8, "1")] if version else [])
    assert len(answer.config_resources) == len(named)


TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 2, 3, 5


async def alter(
    setup: Setup, operation: int = SET, broker: str = "", **configs: str
) -> tuple[ErrorCode, str]:
    changes = [
        AlterableConfig(name.replace("_", "."), operation, value or None)
        for name, value in configs.items()
    ]
    answer = await setup.client.call(
        1, IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, broker, changes)])
    )
    (found,) = answer.responses
    return ErrorCode(found.error_code), found.error_message or ""


async def described(setup: Setup, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    answer = await setup.client.call(
        4, DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
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
        ({"log_retention_ms": "x"}, "", ErrorCode.INVALID_REQUEST, "log.retention.ms"),
        ({"log_retention_ms": "1"}, "99", ErrorCode.INVALID_REQUEST, "no broker 99"),
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
    """They come before those of all brokers; configs that only tune files and threads are checked and shown."""
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
    """Each topic config with a broker default in Kafka has one here, and no two share it."""
    assert len(set(TOPIC_CONFIG_OF.values())) == len(TOPIC_CONFIG_OF)
    assert TOPIC_CONFIG_OF["message.max.bytes"] == "max.message.bytes"
    assert TOPIC_CONFIG_OF["compression.type"] == "compression.type"
