"""DescribeConfigs over the wire: every version, and errors."""

import logging
from typing import Any

import pytest

from lacuna.agent.admin.log_dirs import LOG_DIR
from tests.agent.apis.clusters import Setup, topic
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
