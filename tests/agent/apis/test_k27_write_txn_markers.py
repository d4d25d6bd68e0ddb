"""WriteTxnMarkers over the wire: every version, and errors."""

from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    TxnAborted,
)
from tests.agent.apis.scripted import Setup
from tests.messages import nested


async def test_markers_from_outside_abort_and_never_commit() -> None:
    """S21."""
    setup = Setup(abort_txn=Reply(txn_aborted=TxnAborted()))

    async def mark(commit: bool, name: str = "t") -> int:
        topic = nested(27, 1, "WritableTxnMarkerTopic", name=name, partition_indexes=(0,))
        marker = nested(
            27,
            1,
            "WritableTxnMarker",
            producer_id=5,
            producer_epoch=3,
            transaction_result=commit,
            topics=(topic,),
            coordinator_epoch=0,
        )
        answer = await setup.ask(27, 1, markers=(marker,))
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert await mark(commit=True) == 52
    assert await mark(commit=False, name="nope") == 3
    assert setup.commands("abort_txn") == []
    assert await mark(commit=False) == 0
    (command,) = setup.commands("abort_txn")
    assert (command.producer_id, command.producer_epoch) == (5, 3)
