"""GetTelemetrySubscriptions and PushTelemetry, which request no metrics and store none (KIP-714)."""

from typing import Any
from uuid import UUID

from lacuna.wire.layout import ZERO_UUID
from tests.agent.apis.clusters import INVALID_REQUEST, Setup


async def test_telemetry_asks_for_nothing_and_keeps_nothing(setup: Setup) -> None:
    """KIP-714, docs/adr/0017: a client keeps its id; pushed metrics are bounded and dropped."""
    first = await setup.ask(71, 0, client_instance_id=ZERO_UUID)
    other = await setup.ask(71, 0, client_instance_id=ZERO_UUID)
    mine = first.client_instance_id
    assert UUID(bytes=mine).version == 4
    assert mine != other.client_instance_id
    again = await setup.ask(71, 0, client_instance_id=mine)
    assert again.client_instance_id == mine
    assert first.requested_metrics == ()
    assert first.push_interval_ms == 300_000

    async def push(**over: Any) -> int:
        fields = {
            "client_instance_id": mine,
            "subscription_id": first.subscription_id,
            "terminating": True,
            "compression_type": 4,
            "metrics": b"no zstd",
        }
        return int((await setup.ask(72, 0, **(fields | over))).error_code)

    assert await push() == 0
    assert await push(metrics=b"x" * (1 << 20)) == 0
    assert await push(metrics=b"x" * ((1 << 20) + 1)) == 118
    assert await push(subscription_id=99) == 117
    assert await push(compression_type=7) == 76
    assert await push(client_instance_id=ZERO_UUID) == INVALID_REQUEST
    assert not {71, 72} & set(setup.running.context.advertised)
