"""UnregisterBroker over the wire: every version, and errors."""

from tests.agent.apis.clusters import INVALID_REQUEST, NOT_REGISTERED, Setup


async def test_a_live_agent_cannot_be_unregistered(setup: Setup) -> None:
    live = await setup.ask(64, 0, broker_id=1)
    assert live.error_code == INVALID_REQUEST
    assert "stop it" in live.error_message
    assert (await setup.ask(64, 0, broker_id=2)).error_code == NOT_REGISTERED
