"""AddOffsetsToTxn over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    OffsetsAddedToTxn,
)
from tests.agent.apis.scripted import TRANSACTION, Setup, fences


@pytest.mark.parametrize("version", range(5))
async def test_add_offsets_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(add_offsets_to_txn=Reply(offsets_added_to_txn=OffsetsAddedToTxn(error_code=code)))
    answer = await setup.ask(25, version, **TRANSACTION, group_id="g")
    assert answer.error_code == fences(2, version)
    assert setup.commands("add_offsets_to_txn")[0].group_id == "g"
