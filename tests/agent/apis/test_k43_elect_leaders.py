"""ElectLeaders: the preferred leader already leads, and there is no other replica."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.elect_leaders import (
    ELECT_LEADERS_REQUEST,
    ELECT_LEADERS_RESPONSE,
    ElectLeadersRequest,
    TopicPartitions,
)
from tests.agent.apis.clusters import Setup

PREFERRED, UNCLEAN, NO_SUCH_TYPE = 0, 1, 2


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [PREFERRED, UNCLEAN])
async def test_no_election_is_needed(setup: Setup, version: int, election_type: int) -> None:
    """A topic or partition that does not exist has a separate error."""
    await setup.create("t", 2)
    asked = [TopicPartitions("t", [0, 2]), TopicPartitions("u", [0])]
    answer = await setup.client.call(
        ELECT_LEADERS_REQUEST,
        ELECT_LEADERS_RESPONSE,
        version,
        ElectLeadersRequest(election_type, asked, 1000),
    )
    found = [
        (each.topic, part.partition_id, part.error_code)
        for each in answer.replica_election_results
        for part in each.partition_result
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == ErrorCode.NONE
    assert found == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED), ("t", 2, unknown), ("u", 0, unknown)]


async def test_without_partitions_all_topics_are_named(setup: Setup) -> None:
    """The answer lists no partitions of them."""
    await setup.create("t", 2)
    answer = await setup.client.call(
        ELECT_LEADERS_REQUEST,
        ELECT_LEADERS_RESPONSE,
        2,
        ElectLeadersRequest(PREFERRED, None, 1000),
    )
    found = [(each.topic, each.partition_result) for each in answer.replica_election_results]
    assert found == [("t", ())]


async def test_an_unknown_type_is_refused(setup: Setup) -> None:
    """The error appears at each partition."""
    await setup.create("t")
    answer = await setup.client.call(
        ELECT_LEADERS_REQUEST,
        ELECT_LEADERS_RESPONSE,
        2,
        ElectLeadersRequest(NO_SUCH_TYPE, [TopicPartitions("t", [0])], 1000),
    )
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (result,) = answer.replica_election_results[0].partition_result
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown election type 2",
    )
