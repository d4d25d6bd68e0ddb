"""AlterConfigs over the wire: every version, and errors."""

from typing import Any

import pytest

from tests.agent.apis.clusters import INVALID_CONFIG, Setup
from tests.messages import nested


def of_topic(version: int, name: str, **configs: str | None) -> Any:
    """A resource of AlterConfigs."""
    return nested(
        33,
        version,
        "AlterConfigsResource",
        resource_type=2,
        resource_name=name,
        configs=tuple(
            nested(33, version, "AlterableConfig", name=key.replace("_", "."), value=value)
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
    config = nested(33, 2, "AlterableConfig", name="a", value="b")
    others = [
        nested(
            33, 2, "AlterConfigsResource", resource_type=kind, resource_name="1", configs=(config,)
        )
        for kind in (4, 8, 16, 77, 32)
    ]
    asked = (of_topic(2, "t"), of_topic(2, "u", segment_ms="7"), of_topic(2, "t"), *others)
    found = (await setup.ask(33, 2, resources=asked, validate_only=False)).responses
    assert [each.error_code for each in found] == [42, 0, 42, 42, 42, 42, 42, INVALID_CONFIG]
    assert all(each.error_message for each in found if each.error_code)
    assert setup.configs("t") == {"retention.ms": "5"}
    assert setup.configs("u") == {"segment.ms": "7"}
