"""EndTxn over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    TxnEnded,
)
from tests.agent.apis.scripted import TRANSACTION, Setup, fences


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("version", range(6))
async def test_end_txn(version: int, code: int) -> None:
    """S9: v5 bumps the epoch and returns the new one, or -1 and -1 with an error."""
    ended = TxnEnded(producer_id=5, producer_epoch=4)
    setup = Setup(end_txn=Reply(txn_ended=ended))
    answer = await setup.ask(26, version, **TRANSACTION, committed=True)
    (command,) = setup.commands("end_txn")
    assert command.committed
    assert command.bumps_epoch == (version >= 5)
    assert answer.error_code == 0
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (5, 4)
    failed = Setup(end_txn=Reply(txn_ended=TxnEnded(error_code=code, producer_id=5)))
    answer = await failed.ask(26, version, **TRANSACTION, committed=False)
    assert answer.error_code == fences(2, version)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
