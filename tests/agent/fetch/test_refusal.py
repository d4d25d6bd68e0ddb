"""What a fetch is told that cannot be served now."""

from agent.apis.fetch import refuse
from agent.fetch.codec import FINAL_EPOCH, FetchPartition, FetchRequest, FetchTopic
from agent.fetch.sessions import FETCH_SESSION_ID_NOT_FOUND


def request(session_id: int, session_epoch: int, topics: list[FetchTopic]) -> FetchRequest:
    """A read_committed fetch of these topics."""
    return FetchRequest(12, 500, 1, 1 << 20, 1, session_id, session_epoch, topics, [], "")


def test_an_incremental_fetch_is_sent_back_to_a_full_one() -> None:
    """S21: an empty answer would be asked for again at once, without end."""
    answer = refuse(request(7, 3, []), 56)
    assert answer.error_code == FETCH_SESSION_ID_NOT_FOUND
    assert answer.topics == []


def test_a_full_fetch_fails_partition_by_partition() -> None:
    """The client backs off from each."""
    topic = FetchTopic(
        "t", bytes(16), [FetchPartition(0, 0, 1 << 20, -1), FetchPartition(1, 5, 1 << 20, -1)]
    )
    answer = refuse(request(0, FINAL_EPOCH, [topic]), 56)
    assert answer.error_code == 0
    assert [(p.partition, p.error_code) for p in answer.topics[0].partitions] == [(0, 56), (1, 56)]
