"""InitProducerId over the wire: every version, and errors."""

from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    ProducerIdInitialized,
)
from tests.agent.apis.scripted import Setup, fences


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(version: int) -> None:
    """S8: a producer can pass its id and epoch from v3 on (KIP-360)."""
    initialized = ProducerIdInitialized(producer_id=5, producer_epoch=4)
    setup = Setup(init_producer_id=Reply(producer_id_initialized=initialized))
    fields: dict[str, Any] = {
        "transactional_id": "x",
        "transaction_timeout_ms": 9000,
    }
    if version >= 3:
        fields |= {"producer_id": 5, "producer_epoch": 3}
    answer = await setup.ask(22, version, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 5, 4)
    (command,) = setup.commands("init_producer_id")
    assert (command.producer_id, command.producer_epoch) == ((5, 3) if version >= 3 else (-1, -1))
    assert command.transaction_timeout_ms == 9000
    assert command.has_transactional_id
    code = int(ErrorCode.PRODUCER_FENCED)
    failed = Setup(
        init_producer_id=Reply(producer_id_initialized=ProducerIdInitialized(error_code=code))
    )
    answer = await failed.ask(22, version, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        fences(4, version),
        -1,
        -1,
    )
