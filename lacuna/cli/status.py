"""`lacuna status`: an overview of a whole cluster."""

from collections import Counter
from dataclasses import dataclass, field

from lacuna.agent.admin.config_resources import BROKER
from lacuna.agent.admin.configs import KERNEL
from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError
from lacuna.cli.answers import check
from lacuna.cli.console import asynchronous, print_collected, table
from lacuna.cli.errors import fail, print_error
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.messages.describe_cluster import (
    DESCRIBE_CLUSTER_REQUEST,
    DESCRIBE_CLUSTER_RESPONSE,
    DescribeClusterRequest,
)
from lacuna.wire.messages.describe_configs import (
    DESCRIBE_CONFIGS_REQUEST,
    DESCRIBE_CONFIGS_RESPONSE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
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


@dataclass(slots=True)
class _Answers:
    """The answers of the agents: the numbers of groups and transactions by state, and why an agent did not answer.

    `failing` is the number of agents that cannot write to the object store.
    """

    groups: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    kernels: dict[int, str] = field(default_factory=dict)
    failing: int = 0
    problem: str = ""

    async def ask(self, node_id: int, agent: Agents) -> None:
        """Returns an agent's own groups, transactions and state."""
        try:
            async with KafkaConnection(agent) as connection:
                self.kernels[node_id] = await _kernel(connection, node_id)
                self.failing += await _cannot_store(connection)
                groups = await connection.ask(
                    LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE, 5, ListGroupsRequest()
                )
                check(groups.error_code, "groups")
                transactions = await connection.ask(
                    LIST_TRANSACTIONS_REQUEST,
                    LIST_TRANSACTIONS_RESPONSE,
                    1,
                    ListTransactionsRequest(duration_filter=-1),
                )
                check(transactions.error_code, "transactions")
        except UserError as error:
            self.problem = self.problem or str(error)
            return
        self.groups.update(group.group_state for group in groups.groups)
        self.transactions.update(each.transaction_state for each in transactions.transaction_states)


@asynchronous
async def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows a cluster's agents, and counts its topics, groups and transactions by state.

    An agent with an interpreted kernel was built without a C compiler, and is much slower. If the control plane does
    not answer, the command shows only the agents' own data, and the exit code is 1. `lacuna controlplane status` shows
    the control planes, and `/metrics` of each process shows all metrics.
    """
    async with KafkaConnection(bootstrap) as connection:
        cluster = await connection.ask(
            DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE, 0, DescribeClusterRequest()
        )
        check(cluster.error_code, "cluster", cluster.error_message)
        request = MetadataRequest(None, allow_auto_topic_creation=False)
        metadata = await connection.ask(METADATA_REQUEST, METADATA_RESPONSE, 12, request)
    brokers = sorted(cluster.brokers, key=lambda broker: broker.broker_id)
    answers = _Answers()
    for broker in brokers:
        address = join_address(broker.host, broker.port)
        await answers.ask(broker.broker_id, Agents(address, bootstrap.security))
    table(
        ("agent", "address", "zone", "kernel"),
        (
            (
                broker.broker_id,
                f"{broker.host}:{broker.port}",
                broker.rack or "",
                answers.kernels.get(broker.broker_id, ""),
            )
            for broker in brokers
        ),
        title=f"Cluster {cluster.cluster_id}",
        name="agents",
    )
    topics = [topic for topic in metadata.topics if not topic.is_internal]
    rows = [("agents", "cannot store records", answers.failing)] if answers.failing else []
    rows += [("topics", "", len(topics))]
    rows += [("partitions", "", sum(len(topic.partitions) for topic in topics))]
    rows += [("groups", state, count) for state, count in sorted(answers.groups.items())]
    rows += [
        ("transactional ids", state, count) for state, count in sorted(answers.transactions.items())
    ]
    table(("what", "state", "count"), rows, name="counts")
    if answers.failing:
        print_error(
            f"{answers.failing} of {len(brokers)} agents cannot write to the object store: see their logs or /readyz"
        )
    if answers.problem:
        print_collected()
        fail(f"some groups and transactions are not counted: {answers.problem}")


async def _cannot_store(connection: KafkaConnection) -> bool:
    """Whether the agent reports that it cannot write to the object store."""
    response = await connection.ask(
        DESCRIBE_LOG_DIRS_REQUEST, DESCRIBE_LOG_DIRS_RESPONSE, 4, DescribeLogDirsRequest(())
    )
    return any(each.error_code == ErrorCode.KAFKA_STORAGE_ERROR for each in response.results)


async def _kernel(connection: KafkaConnection, node_id: int) -> str:
    """Whether the agent's kernel is compiled; "" if the user may not see the agent's configs."""
    resource = DescribeConfigsResource(BROKER, str(node_id), [KERNEL])
    response = await connection.ask(
        DESCRIBE_CONFIGS_REQUEST, DESCRIBE_CONFIGS_RESPONSE, 4, DescribeConfigsRequest([resource])
    )
    (result,) = response.results
    return next((each.value or "" for each in result.configs), "")
