"""The rights of a job: a session that is neither an agent's nor a control plane's.

Jobs are compaction, exports, Spark's source and sink, verify, explain and the console. A verb is for jobs if its row
declares what it needs. Jobs get nothing that would let them act as an agent or as a user: no secret of agents, no
credentials or delegation tokens, and no verbs that administer the cluster or serve clients. If the control plane has an
authorizer, ACLs decide about topics, and replies omit what a job may not describe. Without one, a job may change any
record.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lacuna.controlplane.machine import VERBS
from lacuna.controlplane.shared.acls import (
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    Operation,
    ResourceType,
)
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import DENIED, Authorizer
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import USER, Principal
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment
from lacuna.controlplane.verbs.needs import Need, Rule

_READ, _WRITE, _ALTER = Operation.READ, Operation.WRITE, Operation.ALTER
_DESCRIBE, _DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_CLUSTER, _TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID


class Job(NamedTuple):
    """The identity of a session: the subject of its certificate, and its address."""

    subject: str
    host: str

    @property
    def principal(self) -> str:
        """The session's principal, as ACLs name it."""
        return str(Principal(USER, self.subject))


def refusals(commands: Sequence[Command]) -> list[Reply]:
    """Return the replies to the commands that jobs may not send."""
    return [
        Reply(
            command_id=command.command_id,
            failure=Failure(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                message=f"only agents and control planes may {str(verb).replace('_', ' ')}: "
                "controlplane.cluster.principals does not name the certificate of this process",
            ),
        )
        for command in commands
        if _rule(verb := command.WhichOneof("verb")) is None
    ]


def _rule(verb: str | None) -> Rule | None:
    row = VERBS.get(verb or "")
    return None if row is None else row.needs


def _names_no_transaction(command: CommitSegment) -> bool:
    """Return whether a batch of a transaction names no transactional id, so that no right would apply to it."""
    if len(command.batches) % COMMITTED_BATCH.size:
        return False  # it is malformed, and refused as such
    return any(
        flags & FLAG_TRANSACTIONAL and not flags >> TRANSACTIONAL_ID_SHIFT
        for *_, flags in COMMITTED_BATCH.iter_unpack(command.batches)
    )


class JobRights:
    """The rights of one session, by the ACLs at the time of the request."""

    def __init__(self, state: State, authorizer: Authorizer, audit: Audit, job: Job) -> None:
        self._state = state
        self._authorizer = authorizer
        self._audit = audit
        self._principal = Principal(USER, job.subject)
        self._host = job.host
        #: The ids of the topics that the job knows.
        self._told: set[bytes] = set()

    def failure(self, command: Command) -> Failure | None:
        """Return why a command is rejected, or None if it is allowed."""
        verb = str(command.WhichOneof("verb"))
        rule = _rule(verb)
        if rule is None:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return Failure(error_code=code, message=f"jobs may not {verb.replace('_', ' ')}")
        for need in rule(getattr(command, verb), self._state):
            if not self._may(need):
                return self._denied(need, verb)
        if verb == "commit_segment" and _names_no_transaction(command.commit_segment):
            return Failure(
                error_code=DENIED[_TRANSACTIONAL_ID],
                message=(
                    "a batch of a transaction does not name its transactional id, so its rights "
                    "cannot be checked: commit it with its transactional id"
                ),
            )
        return None

    def refusal(self, topic_id: bytes) -> str:
        """Return why the partitions of a topic are not shown, or "" if they are."""
        name = self._state.topic_name(topic_id)
        need = Need((_READ,), _TOPIC, name)
        if not name or self._may(need):
            return ""
        return self._denied(need, "subscribe").message

    def shown(self, delta: ClusterDelta) -> ClusterDelta:
        """Return the visible part of a change of the cluster, without users and ACLs."""
        told = ClusterDelta()
        told.CopyFrom(delta)
        told.ClearField("security")
        if delta.is_snapshot and not self._authorizer.is_super(self._principal):
            told.principal = str(self._principal)
        del told.topics[:], told.deleted_topic_ids[:]
        gone = [each for each in delta.deleted_topic_ids if each in self._told]
        if self._concerns(delta):
            topics = {each: topic.message() for each, topic in self._state.topics.items()}
            seen = {each: topic for each, topic in topics.items() if self._sees(topic.name)}
            gone += self._told & topics.keys() - seen.keys()
            changed = {each.topic_id for each in delta.topics}
            new = [seen[each] for each in seen if each in changed or each not in self._told]
        else:
            new = [each for each in delta.topics if self._sees(each.name)]
        told.deleted_topic_ids.extend(gone)
        told.topics.extend(new)
        self._told.difference_update(gone)
        self._told.update(each.topic_id for each in new)
        return told

    def answer(self, reply: Reply) -> Reply:
        """Return the visible part of an answer."""
        keep = _SHOWN.get(str(reply.WhichOneof("result")))
        if keep is None or self._authorizer.is_super(self._principal):
            return reply
        told = Reply()
        told.CopyFrom(reply)
        keep(self, told)
        return told

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the job may perform an operation, without logging."""
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def may_see(self, topic_id: bytes) -> bool:
        """Return whether the job may know of a topic. A deleted topic has no name that the job could learn."""
        name = self._state.topic_name(topic_id)
        return not name or self._sees(name)

    def _knows(self, topic: str | None) -> bool:
        return topic is None or topic == WILDCARD or self._sees(topic)

    def _sees(self, topic: str) -> bool:
        return self.may(_DESCRIBE, _TOPIC, topic)

    def _may(self, need: Need) -> bool:
        if need.name is not None:
            return any(self.may(each, need.resource_type, need.name) for each in need.operations)
        return any(
            self._authorizer.allows_somewhere(self._principal, self._host, each, need.resource_type)
            for each in need.operations
        )

    def _denied(self, need: Need, verb: str) -> Failure:
        api = "".join(word.capitalize() for word in verb.split("_"))
        kind = need.resource_type
        self._audit.denied(
            self._principal, self._host, need.operations[0], kind, need.name or WILDCARD, api
        )
        who = str(self._principal)
        # Topics come as ids, which objects in the bucket contain too. The name is only for jobs that may describe it.
        shown = need if kind is not _TOPIC or self._knows(need.name) else need._replace(name="")
        message = (
            f"{who} may not {shown.words()}: an operator can allow it with `{shown.remedy(who)}`"
        )
        return Failure(error_code=DENIED[kind], message=message)

    def _concerns(self, delta: ClusterDelta) -> bool:
        """Return whether ACLs that affect this job's view have changed."""
        changed = [*delta.security.added_acls, *delta.security.removed_acls]
        if not changed or delta.is_snapshot:
            return False
        if self._authorizer.allows_without_acls:
            return True
        return any(each.principal in (str(self._principal), EVERYBODY) for each in changed)


def _keep(items: Any, is_shown: Callable[[Any], bool]) -> None:
    """Keep only the visible elements of a repeated field."""
    kept = [each for each in items if is_shown(each)]
    if len(kept) < len(items):
        del items[:]
        items.extend(kept)


def _shown_groups(rights: JobRights, reply: Reply) -> None:
    if not rights.may(_DESCRIBE, _CLUSTER, CLUSTER_NAME):
        _keep(reply.groups_listed.groups, lambda each: rights.may(_DESCRIBE, _GROUP, each.group_id))


def _shown_configs(rights: JobRights, reply: Reply) -> None:
    _keep(
        reply.group_configs_described.groups,
        lambda each: rights.may(_DESCRIBE_CONFIGS, _GROUP, each.group_id),
    )


def _shown_offsets(rights: JobRights, reply: Reply) -> None:
    for group in reply.offsets_fetched.groups:
        _keep(group.offsets, lambda each: rights.may_see(each.partition.topic_id))


def _shown_transactions(rights: JobRights, reply: Reply) -> None:
    _keep(
        reply.transactions_listed.transactions,
        lambda each: rights.may(_DESCRIBE, _TRANSACTIONAL_ID, each.transactional_id),
    )


def _shown_descriptions(rights: JobRights, reply: Reply) -> None:
    for transaction in reply.transactions_described.transactions:
        _keep(transaction.partitions, lambda each: rights.may_see(each.topic_id))


def _shown_members(rights: JobRights, reply: Reply) -> None:
    """Omit the members of a group if one of them has a topic that may not be described, as Kafka does (KIP-848).

    A topic that it only subscribes to does not count.
    """
    for group in reply.consumer_groups_described.groups:
        has_hidden = not all(
            rights.may_see(each.topic_id)
            for member in group.members
            for each in (*member.assignment, *member.target)
        )
        if has_hidden:
            del group.members[:]
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = "The group uses topics that the principal may not describe."


_SHOWN: Final[Mapping[str, Callable[[JobRights, Reply], None]]] = {
    "consumer_groups_described": _shown_members,
    "group_configs_described": _shown_configs,
    "groups_listed": _shown_groups,
    "offsets_fetched": _shown_offsets,
    "transactions_described": _shown_descriptions,
    "transactions_listed": _shown_transactions,
}
