"""IncrementalAlterConfigs over the wire: every version, and errors."""

from typing import Any

import pytest

from tests.agent.apis.clusters import INVALID_CONFIG, INVALID_REQUEST, Setup, topic
from tests.messages import nested


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
        return {each.name: (each.value, each.config_source) for each in result.configs}

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
    assert "group.consumer.max.session.timeout.ms" in answer.responses[0].error_message
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
