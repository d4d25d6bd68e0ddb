"""Who may do what: the guard of each API, by its key. What an operation is needed on is what Kafka needs it on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from lacuna.agent.api import Api, Call
from lacuna.agent.guards import cluster, groups, records, topics, transactions
from lacuna.agent.guards.guard import Guard, on_cluster, on_each, on_group
from lacuna.agent.guards.rights import Rights
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.registry import Registry
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import Authorizer

_READ, _WRITE, _DELETE = Operation.READ, Operation.WRITE, Operation.DELETE
_ALTER, _DESCRIBE = Operation.ALTER, Operation.DESCRIBE
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP

GUARDS: Final[Mapping[int, Guard]] = {
    0: records.produce,
    1: records.fetch,
    2: on_each("topics", "topics", _DESCRIBE, _TOPIC, "name"),
    3: topics.metadata,
    8: groups.offset_commit,
    9: groups.offset_fetch,
    10: cluster.find_coordinator,
    11: on_group(_READ),
    12: on_group(_READ),
    13: on_group(_READ),
    14: groups.sync_group,
    15: groups.describe_groups,
    16: groups.list_groups,
    19: topics.create_topics,
    20: topics.delete_topics,
    21: on_each("topics", "topics", _DELETE, _TOPIC, "name"),
    22: transactions.init_producer_id,
    23: records.offset_for_leader_epoch,
    24: transactions.add_partitions_to_txn,
    25: transactions.add_offsets_to_txn,
    26: transactions.end_txn,
    27: on_cluster(_ALTER, Operation.CLUSTER_ACTION),
    28: transactions.txn_offset_commit,
    29: on_cluster(_DESCRIBE),
    30: on_cluster(_ALTER),
    31: on_cluster(_ALTER),
    32: cluster.describe_configs,
    33: cluster.alter_configs,
    34: on_cluster(_ALTER),
    35: cluster.describe_log_dirs,
    37: on_each("topics", "results", _ALTER, _TOPIC, "name"),
    38: cluster.create_delegation_token,
    41: cluster.describe_delegation_token,
    42: on_each("groups_names", "results", _DELETE, _GROUP),
    43: on_cluster(_ALTER),
    44: cluster.alter_configs,
    45: on_cluster(_ALTER),
    46: on_cluster(_DESCRIBE),
    47: groups.offset_delete,
    48: on_cluster(Operation.DESCRIBE_CONFIGS),
    49: on_cluster(Operation.ALTER_CONFIGS),
    50: on_cluster(_DESCRIBE),
    51: on_cluster(_ALTER),
    55: on_cluster(_DESCRIBE),
    57: on_cluster(_ALTER),
    60: cluster.describe_cluster,
    61: on_each("topics", "topics", _READ, _TOPIC, "name"),
    64: on_cluster(_ALTER),
    65: transactions.describe_transactions,
    66: transactions.list_transactions,
    68: groups.consumer_group_heartbeat,
    69: groups.consumer_group_describe,
    74: on_cluster(Operation.DESCRIBE_CONFIGS),
    75: topics.describe_topic_partitions,
}

#: APIs that take no right: those that clients begin with, those about tokens whose owner or renewer asks, telemetry,
#: of which nothing is kept, and what agents ask one another with a secret of their own.
OPEN: Final = frozenset({17, 18, 36, 39, 40, 71, 72, 19553})


def guarded(
    registry: Registry,
    authorizer: Authorizer | None,
    metrics: AgentMetrics,
    clock: Callable[[], float],
) -> Registry:
    """Return the APIs with their guards, or as they are without an authorizer. `clock` returns seconds.

    Raises KeyError for an API that has no guard and is not open.
    """
    if authorizer is None:
        return registry

    def count() -> None:
        metrics.authorizations_denied += 1

    audit = Audit(authorizer, clock, count)
    return Registry(
        api if api.key in OPEN else _guarded(api, GUARDS[api.key], authorizer, audit)
        for api in registry.apis()
    )


def _guarded(
    api: Api[Any, Any], guard: Guard, authorizer: Authorizer, audit: Audit
) -> Api[Any, Any]:
    name = api.request.body.make.__name__.removesuffix("Request")

    async def handle(call: Call, request: Any) -> Any:
        view = call.context.control.cluster
        if view.version < 0:  # there are no ACLs yet
            if api.pipelined:  # a request that waited here could be overtaken by the next
                raise ControlPlaneUnavailable("the ACLs are not known yet")
            await view.ready()
        return await guard(Rights(authorizer, audit, call, name), api, call, request)

    return replace(api, handle=handle)
