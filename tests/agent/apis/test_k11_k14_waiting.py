"""JoinGroup and SyncGroup, which wait for other members: every request is answered."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane.client import ControlPlaneUnavailable
from tests.agent.harness import RawClient, ScriptedControl, encode_request, make_context, serving
from tests.agent.requests import requests
from tests.messages import encode_body

VERSIONS = [(11, version) for version in range(10)] + [(14, version) for version in range(6)]


VERBS = {11: "join_group", 14: "sync_group"}


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@pytest.mark.parametrize("is_away", [True, False])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_any_request_is_answered(
    api_key: int, version: int, is_away: bool, data: st.DataObject
) -> None:
    """This includes requests that cannot be decided; the client then looks for a coordinator again."""
    request = data.draw(requests(api_key, version))

    async def run() -> None:
        control = ScriptedControl()
        if is_away:
            control.answers[VERBS[api_key]] = ControlPlaneUnavailable("away")
        context = make_context(control)
        async with serving(context) as server:
            client = await RawClient.connect(server.port)
            client.send(encode_request(api_key, version, encode_body(api_key, version, request)))
            async with asyncio.timeout(60):
                assert await client.frame()
            await client.close()
        assert context.metrics.requests_failed == 0

    asyncio.run(run())
