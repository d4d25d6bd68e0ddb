"""The rights of the user who sent the request. The console shows only what agents would show the same user.

The console itself has access to everything, so its pages omit what the user may not describe. It applies no rules of
its own: on the user's behalf, it asks the agents for the permitted operations, and for lists, which contain only what
the user may see.
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
from lacuna.operating.changing import word_of
from lacuna.operating.exchanges.cluster import DESCRIBE_CLUSTER
from lacuna.operating.exchanges.groups import LIST_GROUPS
from lacuna.operating.exchanges.topics import METADATA
from lacuna.operating.exchanges.transactions import LIST_TRANSACTIONS
from lacuna.operating.kafka import Agents, BootstrapUnavailable, KafkaConnection
from lacuna.wire.messages.cluster import DescribeClusterRequest
from lacuna.wire.messages.groups import ListGroupsRequest
from lacuna.wire.messages.topics import MetadataRequest
from lacuna.wire.messages.transactions import ListTransactionsRequest

#: An ACL change or a new topic becomes visible within this time.
_FRESH_SECONDS: Final = 3.0
_MOST: Final = 100


class NotAllowed(UserError):
    """The user may not see a page or make a change. The message names the missing permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """A user's permissions, as bit sets of operations, as in Kafka's responses. `None` permits everything."""

    topics: Mapping[str, int] | None
    groups: Collection[str] | None
    transactional_ids: Collection[str] | None
    cluster: int | None

    def topic(self, name: str, operation: Operation = Operation.DESCRIBE) -> bool:
        """Whether the user may perform an operation on a topic."""
        return self.topics is None or _has(self.topics.get(name, 0), operation)

    def group(self, group_id: str) -> bool:
        return self.groups is None or group_id in self.groups

    def transaction(self, transactional_id: str) -> bool:
        return self.transactional_ids is None or transactional_id in self.transactional_ids

    @property
    def sees_cluster(self) -> bool:
        """Whether the user may describe the cluster: its agents, their load, and the connected clients."""
        return self.cluster is None or _has(self.cluster, Operation.DESCRIBE)

    @property
    def may_abort(self) -> bool:
        """Whether the user may abort the transactions of others, which in Kafka requires WriteTxnMarkers."""
        return self.cluster is None or any(
            _has(self.cluster, each) for each in (Operation.ALTER, Operation.CLUSTER_ACTION)
        )

    def check_cluster(self, operation: Operation = Operation.DESCRIBE) -> None:
        """Raise NotAllowed if the user may not perform an operation on the cluster."""
        if not (self.cluster is None or _has(self.cluster, operation)):
            word = word_of(operation.name)
            raise NotAllowed(_words(f"{word} on the cluster", f"{word} --cluster"))

    def check_topic(self, topic: str, operation: Operation) -> None:
        """Raise NotAllowed if the user may not perform an operation on a topic."""
        if not self.topic(topic, operation):
            word = word_of(operation.name)
            raise NotAllowed(_words(f"{word} on topic {topic}", f"{word} --topic {quote(topic)}"))

    def check_reads(self, topic: str) -> None:
        self.check_topic(topic, Operation.READ)

    def check_aborts(self) -> None:
        if not self.may_abort:
            self.check_cluster(Operation.ALTER)


EVERYTHING: Final = Rights(topics=None, groups=None, transactional_ids=None, cluster=None)
NOTHING: Final = Rights(topics={}, groups=(), transactional_ids=(), cluster=0)


def _words(what: str, options: str) -> str:
    return (
        f"This page requires the permission {what}, which you do not have. An administrator can grant it with "
        f"lacuna acls add --allow-principal User:NAME --operation {options}"
    )


def _has(operations: int, operation: Operation) -> bool:
    return bool(operations >> operation & 1)


class RightsOfUsers:
    """Caches the rights of recent users for a short time."""

    def __init__(self, seconds: Callable[[], float], *, has_acls: bool) -> None:
        """Without ACLs, every user has all rights, and agents are not queried."""
        self._seconds = seconds
        self._has_acls = has_acls
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Rights]] = OrderedDict()

    async def of(self, agents: Agents) -> Rights:
        """Return the rights of the user in `agents`. Raises UserError if no agent answers or accepts the user."""
        if not self._has_acls:
            return EVERYTHING
        user, now = self._digest(agents.security.credentials), self._seconds()
        while self._known and now - next(iter(self._known.values()))[0] > _FRESH_SECONDS:
            self._known.popitem(last=False)
        cached = self._known.get(user)
        if cached is None:
            cached = (now, await ask(agents))
            self._known.pop(user, None)
            self._known[user] = cached
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return cached[1]

    def forget(self, agents: Agents) -> None:
        """Forget the rights of the user in `agents`, because a change may have extended them."""
        self._known.pop(self._digest(agents.security.credentials), None)

    def _digest(self, user: Credentials | None) -> bytes:
        """Return a key that identifies a user and contains no password."""
        if user is None:
            return b""
        text = "\0".join((user.mechanism, user.user, user.password))
        return hmac.digest(self._key, text.encode(), "sha256")


async def ask(agents: Agents) -> Rights:
    """Ask the agents for the rights of the user in `agents`.

    Groups and transactions listed only by agents that do not answer are omitted. Raises BootstrapUnavailable and
    NotAuthenticated.
    """
    metadata = MetadataRequest(None, False, False, include_topic_authorized_operations=True)
    async with KafkaConnection(agents, limits.ASK_SECONDS) as connection:
        topics = await connection.ask(*METADATA, metadata)
        cluster = await connection.ask(
            *DESCRIBE_CLUSTER[:2],
            1,
            DescribeClusterRequest(include_cluster_authorized_operations=True),
        )
        every = await connection.agents()
    groups: set[str] = set()
    transactional_ids: set[str] = set()
    for agent in every:
        try:
            async with KafkaConnection(agent, limits.ASK_SECONDS) as connection:
                listed = await connection.ask(*LIST_GROUPS, ListGroupsRequest())
                begun = await connection.ask(*LIST_TRANSACTIONS, ListTransactionsRequest())
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
