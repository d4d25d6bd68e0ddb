"""`lacuna status`: a whole cluster at a glance."""

from collections import Counter

import click

from lacuna.cli.answers import check
from lacuna.cli.console import asynchronous, table
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.kafka import Agents, KafkaConnection, ask_every_agent
from lacuna.wire.messages.describe_cluster import (
    DESCRIBE_CLUSTER_REQUEST,
    DESCRIBE_CLUSTER_RESPONSE,
    DescribeClusterRequest,
)
from lacuna.wire.messages.describe_log_dirs import (
    DESCRIBE_LOG_DIRS_REQUEST,
    DESCRIBE_LOG_DIRS_RESPONSE,
    DescribeLogDirsRequest,
)
from lacuna.wire.messages.list_groups import (
    LIST_GROUPS_REQUEST,
    LIST_GROUPS_RESPONSE,
    ListGroupsRequest,
)
from lacuna.wire.messages.list_transactions import (
    LIST_TRANSACTIONS_REQUEST,
    LIST_TRANSACTIONS_RESPONSE,
    ListTransactionsRequest,
)
from lacuna.wire.messages.metadata import METADATA_REQUEST, METADATA_RESPONSE, MetadataRequest


@asynchronous
async def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a cluster's agents, and how many topics, groups and transactions it has in which state.

    `lacuna controlplane status` shows its control planes, `/metrics` of its processes all numbers.
    """
    async with KafkaConnection(bootstrap) as connection:
        cluster = await connection.ask(
            DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE, 0, DescribeClusterRequest()
        )
        check(cluster.error_code, "cluster", cluster.error_message)
        request = MetadataRequest(None, allow_auto_topic_creation=False)
        metadata = await connection.ask(METADATA_REQUEST, METADATA_RESPONSE, 12, request)
    topics = [topic for topic in metadata.topics if not topic.is_internal]
    groups: Counter[str] = Counter()
    for answer in await ask_every_agent(
        bootstrap, LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE, 5, ListGroupsRequest()
    ):
        check(answer.error_code, "groups")
        groups.update(group.group_state for group in answer.groups)
    transactions: Counter[str] = Counter()
    for listed in await ask_every_agent(
        bootstrap,
        LIST_TRANSACTIONS_REQUEST,
        LIST_TRANSACTIONS_RESPONSE,
        1,
        ListTransactionsRequest(duration_filter=-1),
    ):
        check(listed.error_code, "transactions")
        transactions.update(found.transaction_state for found in listed.transaction_states)
    failing = await _count_failing_stores(bootstrap)
    table(
        ("agent", "address", "zone"),
        (
            (broker.broker_id, f"{broker.host}:{broker.port}", broker.rack or "")
            for broker in sorted(cluster.brokers, key=lambda broker: broker.broker_id)
        ),
        title=f"Cluster {cluster.cluster_id}",
        name="agents",
    )
    rows = [("agents", "cannot store records", failing)] if failing else []
    rows += [("topics", "", len(topics))]
    rows += [("partitions", "", sum(len(topic.partitions) for topic in topics))]
    rows += [("groups", state, count) for state, count in sorted(groups.items())]
    rows += [("transactional ids", state, count) for state, count in sorted(transactions.items())]
    table(("what", "state", "count"), rows, name="counts")
    if failing:
        click.echo(
            f"{failing} of {len(cluster.brokers)} agents cannot write to the object store: "
            "their logs and /readyz say why",
            err=True,
        )


async def _count_failing_stores(bootstrap: Agents) -> int:
    """Return how many agents say that they cannot write to the object store."""
    answers = await ask_every_agent(
        bootstrap,
        DESCRIBE_LOG_DIRS_REQUEST,
        DESCRIBE_LOG_DIRS_RESPONSE,
        4,
        DescribeLogDirsRequest(()),
    )
    codes = [each.error_code for answer in answers for each in answer.results]
    return codes.count(ErrorCode.KAFKA_STORAGE_ERROR)
