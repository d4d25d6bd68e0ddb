"""The answers to a fetch that cannot be served now."""

from lacuna.agent.apis.k01_fetch import refuse
from lacuna.agent.fetch.sessions import FINAL_EPOCH
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.agent.fetch.log import call_of


def request(session_id: int, session_epoch: int, topics: list[FetchTopic]) -> FetchRequest:
    """A read_committed fetch of these topics."""
    return FetchRequest(
        isolation_level=1, session_id=session_id, session_epoch=session_epoch, topics=topics
    )


def test_an_incremental_fetch_is_sent_back_to_a_full_one() -> None:
    """S21: after an empty answer, the client would retry at once, without end."""
    answer = refuse(call_of(12), request(7, 3, []), 56)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == ()


def test_a_full_fetch_fails_partition_by_partition() -> None:
    """The client backs off from each partition."""
    topic = FetchTopic("t", bytes(16), [FetchPartition(0), FetchPartition(1, fetch_offset=5)])
    answer = refuse(call_of(12), request(0, FINAL_EPOCH, [topic]), 56)
    assert answer.error_code == 0
    assert [(p.partition_index, p.error_code) for p in answer.responses[0].partitions] == [
        (0, 56),
        (1, 56),
    ]
