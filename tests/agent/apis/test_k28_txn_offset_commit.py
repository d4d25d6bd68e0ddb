"""TxnOffsetCommit over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import TXN_COMMIT, running

INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN = 22, 25, 26


@pytest.mark.parametrize("version", range(6))
async def test_transactional_commits_at_every_version(version: int) -> None:
    """Offsets are pending until the end. If the group is not in the transaction, the error depends on the version."""
    async with running() as run:
        wire = await run.connect()
        producer = await wire.ask(
            INIT_PRODUCER_ID,
            2,
            transactional_id="x",
            transaction_timeout_ms=60_000,
        )
        assert producer.error_code == 0
        who = {
            "transactional_id": "x",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }
        refusal = {4: ErrorCode.TRANSACTION_ABORTABLE, 5: 0}.get(
            version, ErrorCode.INVALID_TXN_STATE
        )
        assert await wire.commit(version, "t", 5, TXN_COMMIT, **who) == [refusal, 3]
        if version < 5:
            assert (await wire.ask(ADD_OFFSETS, 3, **who, group_id="g")).error_code == 0
            assert await wire.commit(version, "t", 5, TXN_COMMIT, **who) == [0, 3]
        assert await wire.commit(version, "u", 5, TXN_COMMIT, **who) == [3, 3]
        nameless = await wire.commit(version, "t", 5, TXN_COMMIT, **who, group_id="")
        assert nameless == [ErrorCode.INVALID_GROUP_ID, 3]
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        stale = who | {"producer_epoch": producer.producer_epoch - 1}
        if producer.producer_epoch > 0:
            fenced = await wire.commit(version, "t", 5, TXN_COMMIT, **stale)
            assert fenced == [ErrorCode.INVALID_PRODUCER_EPOCH, 3]
        assert (await wire.ask(END_TXN, 3, **who, committed=True)).error_code == 0
        (found,) = await wire.fetch(7, "t", require_stable=True)
        assert found.partitions[0].committed_offset == 5
