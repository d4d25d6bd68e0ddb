"""DescribeCluster over the wire: every version, and errors."""

from typing import Any

import pytest

from tests.agent.apis.clusters import Setup


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(setup: Setup, version: int) -> None:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": version > 0}
    if version >= 2:
        fields["include_fenced_brokers"] = True
    answer = await setup.ask(60, version, **fields)
    (broker,) = answer.brokers
    assert (broker.port, broker.rack) == (setup.running.server.port, "a")
    assert (answer.cluster_id, answer.controller_id) == ("cluster", broker.broker_id)
    asked = answer.cluster_authorized_operations
    assert asked == (-(2**31) if version == 0 else 8096)
    if version >= 1:
        codes = [
            (await setup.ask(60, version, **fields, endpoint_type=kind)).error_code
            for kind in (2, 9)
        ]
        assert codes == [114, 115]
