"""What the user of a request may see: what the agents show that user.

The console itself may see everything, so its pages leave out what their user may not describe. It has no rules of its
own: it asks the agents as the user, for lists, from which they leave out the rest, and for what is allowed.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Final

from lacuna.base.errors import UserError
from lacuna.base.sasl import Credentials
from lacuna.console import limits
from lacuna.controlplane.shared.acls import Operation
from lacuna.operating.kafka import Agents, BootstrapUnavailable, KafkaConnection
from lacuna.wire.messages.describe_cluster import (
    DESCRIBE_CLUSTER_REQUEST,
    DESCRIBE_CLUSTER_RESPONSE,
    DescribeClusterRequest,
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

#: A change of ACLs, and what has just been created, is seen after so long at most.
_FRESH_SECONDS: Final = 3.0
_MOST: Final = 100


class NotAllowed(UserError):
    """The user may not see a page, or may not do something; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a user may see and do. Operations are sets of bits, as in Kafka's answers; None stands for everything."""

    topics: Mapping[str, int] | None
    groups: Collection[str] | None
    transactional_ids: Collection[str] | None
    cluster: int | None

    def topic(self, name: str, operation: Operation = Operation.DESCRIBE) -> bool:
        """Whether an operation on a topic is allowed."""
        return self.topics is None or _has(self.topics.get(name, 0), operation)

    def group(self, group_id: str) -> bool:
        """Whether a group may be described."""
        return self.groups is None or group_id in self.groups

    def transaction(self, transactional_id: str) -> bool:
        """Whether a transactional id may be described."""
        return self.transactional_ids is None or transactional_id in self.transactional_ids

    @property
    def sees_cluster(self) -> bool:
        """Whether the cluster may be described: its agents, what they do, and who is connected."""
        return self.cluster is None or _has(self.cluster, Operation.DESCRIBE)

    @property
    def may_abort(self) -> bool:
        """Whether transactions of others may be aborted: what WriteTxnMarkers needs in Kafka."""
        return self.cluster is None or any(
            _has(self.cluster, each) for each in (Operation.ALTER, Operation.CLUSTER_ACTION)
        )

    def check_cluster(self) -> None:
        """Raise NotAllowed if the cluster may not be described."""
        if not self.sees_cluster:
            raise NotAllowed(_words("Describe on the cluster", "Describe --cluster"))

    def check_reads(self, topic: str) -> None:
        """Raise NotAllowed if a topic may not be read."""
        if not self.topic(topic, Operation.READ):
            raise NotAllowed(_words(f"Read on topic {topic}", f"Read --topic {quote(topic)}"))

    def check_aborts(self) -> None:
        """Raise NotAllowed if transactions may not be aborted."""
        if not self.may_abort:
            raise NotAllowed(_words("Alter on the cluster", "Alter --cluster"))


EVERYTHING: Final = Rights(topics=None, groups=None, transactional_ids=None, cluster=None)
NOTHING: Final = Rights(topics={}, groups=(), transactional_ids=(), cluster=0)


def _words(what: str, options: str) -> str:
    return (
        f"This needs {what}, which you do not have. Whoever runs the cluster can grant it with "
        f"lacuna acls add --allow-principal User:NAME --operation {options}"
    )


def _has(operations: int, operation: Operation) -> bool:
    return bool(operations >> operation & 1)


class RightsOfUsers:
    """Remembers for a moment what users may see, those who asked last."""

    def __init__(self, seconds: Callable[[], float], *, has_acls: bool) -> None:
        """Without ACLs everybody may see everything, and nobody is asked."""
        self._seconds = seconds
        self._has_acls = has_acls
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Rights]] = OrderedDict()

    async def of(self, agents: Agents) -> Rights:
        """Return what is shown to who connects so. Raises UserError if no agent answers, or none takes the user."""
        if not self._has_acls:
            return EVERYTHING
        user, now = self._digest(agents.security.credentials), self._seconds()
        while self._known and now - next(iter(self._known.values()))[0] > _FRESH_SECONDS:
            self._known.popitem(last=False)
        found = self._known.get(user)
        if found is None:
            found = (now, await ask(agents))
            self._known.pop(user, None)
            self._known[user] = found
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found[1]

    def _digest(self, user: Credentials | None) -> bytes:
        """Return what tells users apart, and keeps no password."""
        if user is None:
            return b""
        text = "\0".join((user.mechanism, user.user, user.password))
        return hmac.digest(self._key, text.encode(), "sha256")


async def ask(agents: Agents) -> Rights:
    """Ask the agents what they show to who connects so.

    Raises BootstrapUnavailable and NotAuthenticated. An agent that does not answer any more is left out, and the groups
    and transactions that it alone lists with it.
    """
    metadata = MetadataRequest(None, False, False, include_topic_authorized_operations=True)
    async with KafkaConnection(agents, limits.ASK_SECONDS) as connection:
        topics = await connection.ask(METADATA_REQUEST, METADATA_RESPONSE, 12, metadata)
        cluster = await connection.ask(
            DESCRIBE_CLUSTER_REQUEST,
            DESCRIBE_CLUSTER_RESPONSE,
            1,
            DescribeClusterRequest(include_cluster_authorized_operations=True),
        )
        every = await connection.agents()
    groups: set[str] = set()
    transactional_ids: set[str] = set()
    for agent in every:
        try:
            async with KafkaConnection(agent, limits.ASK_SECONDS) as connection:
                listed = await connection.ask(
                    LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE, 5, ListGroupsRequest()
                )
                begun = await connection.ask(
                    LIST_TRANSACTIONS_REQUEST,
                    LIST_TRANSACTIONS_RESPONSE,
                    1,
                    ListTransactionsRequest(),
                )
        except BootstrapUnavailable:
            continue
        groups.update(each.group_id for each in listed.groups)
        transactional_ids.update(each.transactional_id for each in begun.transaction_states)
    return Rights(
        topics={each.name: each.topic_authorized_operations for each in topics.topics if each.name},
        groups=groups,
        transactional_ids=transactional_ids,
        cluster=max(cluster.cluster_authorized_operations, 0),
    )
