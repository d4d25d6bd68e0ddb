"""The rights that commands require if ACLs apply, and whether a principal has them.

Jobs are sessions that are not part of the cluster (`controlplane.rights`). Tools send queries through an agent
(`agent/apis/k19554_ask_control.py`), which applies the same rules to its clients. A rule that only one verb uses is
defined next to that verb, unless the verb is one of `QUESTIONS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from lacuna.controlplane.shared.acls import CLUSTER_NAME, WILDCARD, Operation, ResourceType
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import DENIED, Authorizer
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply


class Names(Protocol):
    """Topic names by id, from the state or an agent's view of the cluster."""

    def topic_name(self, topic_id: bytes) -> str: ...


class Need(NamedTuple):
    """One operation on a resource. A name of None stands for any resource of the type, and "" for a hidden name."""

    operations: tuple[Operation, ...]
    resource_type: ResourceType
    name: str | None

    def words(self) -> str:
        """Return a description of the denied operation."""
        what = " or ".join(each.name for each in self.operations)
        kind = self.resource_type.name.lower().replace("_", " ")
        if self.name is None:
            return f"{what} any {kind}"
        if not self.name:
            return f"{what} a {kind} that it may not describe"
        if self.resource_type is ResourceType.CLUSTER:
            return f"{what} the cluster"
        return f"{what} {kind} {self.name}"

    def remedy(self, principal: str) -> str:
        """Return the command that an operator can run to allow the operation."""
        option = f"--{self.resource_type.name.lower().replace('_', '-')}"
        is_cluster = self.resource_type is ResourceType.CLUSTER
        named = "" if is_cluster else f" {quote(self.name or 'NAME')}"
        operation = "".join(word.capitalize() for word in self.operations[0].name.split("_"))
        return f"lacuna acls add --allow-principal {quote(principal)} --operation {operation} {option}{named}"


#: Returns the rights that a command requires. Messages differ between verbs, and a rule knows those of its verbs.
Rule = Callable[[Any, Any], Iterator[Need]]


def on_topics(
    operation: Operation, partitions: Iterable[TopicPartition], names: Names
) -> Iterator[Need]:
    """Yield a need for each topic to which these partitions belong."""
    return on_topic_ids(operation, (each.topic_id for each in partitions), names)


def on_topic_ids(operation: Operation, topic_ids: Iterable[bytes], names: Names) -> Iterator[Need]:
    """Yield a need for each topic that exists; the reply reports the others."""
    for topic_id in dict.fromkeys(topic_ids):
        if name := names.topic_name(topic_id):
            yield Need((operation,), ResourceType.TOPIC, name)


def of_partitions(operation: Operation) -> Rule:
    return lambda command, state: on_topics(operation, command.partitions, state)


def of_groups(operation: Operation) -> Rule:
    def needs(command: Any, _names: Names) -> Iterator[Need]:
        for group_id in command.group_ids:
            yield Need((operation,), ResourceType.GROUP, group_id)

    return needs


def of_transaction(command: Any, _names: Names) -> Iterator[Need]:
    """Yield what a command on one transaction requires."""
    yield Need((Operation.WRITE,), ResourceType.TRANSACTIONAL_ID, command.transactional_id)


def works_with_records(_command: Message, _names: Names) -> Iterator[Need]:
    """Yield what any job that reads or writes records requires, regardless of its topics."""
    yield Need((Operation.READ, Operation.WRITE, Operation.ALTER), ResourceType.TOPIC, None)


def reads_all(_command: Message, _names: Names) -> Iterator[Need]:
    """Yield READ on all topics, since an audit of the bucket would otherwise report objects of unknown topics as
    lost.
    """
    yield Need((Operation.READ,), ResourceType.TOPIC, WILDCARD)


def describes_cluster(_command: Message, _names: Names) -> Iterator[Need]:
    yield Need((Operation.DESCRIBE,), ResourceType.CLUSTER, CLUSTER_NAME)


def nothing(_command: Message, _names: Names) -> Iterator[Need]:
    """Yield nothing. Used for lists, which omit what a job may not describe."""
    return iter(())


def of_transactions(command: Any, _names: Names) -> Iterator[Need]:
    for transactional_id in command.transactional_ids:
        yield Need((Operation.DESCRIBE,), ResourceType.TRANSACTIONAL_ID, transactional_id)


def of_offsets(command: Any, names: Names) -> Iterator[Need]:
    """Yield DESCRIBE on each group, and on each topic that the command names."""
    for group in command.groups:
        yield Need((Operation.DESCRIBE,), ResourceType.GROUP, group.group_id)
        yield from on_topics(Operation.DESCRIBE, group.partitions, names)


def of_share_offsets(command: Any, names: Names) -> Iterator[Need]:
    """Yield DESCRIBE on the group, and on each topic that the command names."""
    yield Need((Operation.DESCRIBE,), ResourceType.GROUP, command.group_id)
    yield from on_topics(Operation.DESCRIBE, command.partitions, names)


#: The verbs of queries that tools send through an agent. They change nothing, and concern only the resources for which
#: the rules yield needs.
QUESTIONS: Final[Mapping[str, Rule]] = {
    "read_partitions": of_partitions(Operation.DESCRIBE),
    "read_as_of": of_partitions(Operation.DESCRIBE),
    "read_cut": of_partitions(Operation.DESCRIBE),
    "read_histories": of_partitions(Operation.DESCRIBE),
    "describe_producers": of_partitions(Operation.READ),
    "describe_transactions": of_transactions,
    "list_transactions": nothing,
    "describe_groups": of_groups(Operation.DESCRIBE),
    "list_groups": nothing,
    "offset_fetch": of_offsets,
    "describe_share_groups": of_groups(Operation.DESCRIBE),
    "describe_share_offsets": of_share_offsets,
    "describe_cluster": describes_cluster,
    "describe_merges": describes_cluster,
}


class PrincipalRights:
    """A principal's rights, according to the ACLs at the time of each request. `rule_of` returns a verb's rule."""

    #: How messages refer to a principal that may not use a verb at all.
    kind = "jobs"

    def __init__(
        self,
        names: Names,
        authorizer: Authorizer,
        audit: Audit,
        principal: Principal,
        host: str,
        rule_of: Callable[[str], Rule | None] = QUESTIONS.get,
    ) -> None:
        self._names = names
        self._authorizer = authorizer
        self._audit = audit
        self._principal = principal
        self._host = host
        self._rule_of = rule_of

    def failure(self, command: Command) -> Failure | None:
        """Return the reason why a command is rejected, or None if it is allowed."""
        verb = str(command.WhichOneof("verb"))
        rule = self._rule_of(verb)
        if rule is None:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return Failure(error_code=code, message=f"{self.kind} may not {verb.replace('_', ' ')}")
        for need in rule(getattr(command, verb), self._names):
            if not self._may(need):
                return self._denied(need, verb)
        return None

    def refusal(self, topic_id: bytes) -> str:
        """Return why a topic's partitions are hidden, or "" if they are visible."""
        name = self._names.topic_name(topic_id)
        need = Need((Operation.READ,), ResourceType.TOPIC, name)
        if not name or self._may(need):
            return ""
        return self._denied(need, "subscribe").message

    def answer(self, reply: Reply) -> Reply:
        """Return the part of an answer that the principal may see."""
        keep = _SHOWN.get(str(reply.WhichOneof("result")))
        if keep is None or self._authorizer.is_super(self._principal):
            return reply
        told = Reply()
        told.CopyFrom(reply)
        keep(self, told)
        return told

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the principal may perform an operation, without logging a denial."""
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def may_see(self, topic_id: bytes) -> bool:
        """Return whether the principal may know of a topic. A deleted topic no longer has a name to hide."""
        name = self._names.topic_name(topic_id)
        return not name or self.sees(name)

    def _knows(self, topic: str | None) -> bool:
        return topic is None or topic == WILDCARD or self.sees(topic)

    def sees(self, topic: str) -> bool:
        return self.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)

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
        # Commands identify topics by id, which the objects in the bucket contain too, so the name is shown only to jobs
        # that may describe the topic.
        shown = (
            need
            if kind is not ResourceType.TOPIC or self._knows(need.name)
            else need._replace(name="")
        )
        message = (
            f"{who} may not {shown.words()}: an operator can allow it with `{shown.remedy(who)}`"
        )
        return Failure(error_code=DENIED[kind], message=message)


def _keep(items: Any, is_shown: Callable[[Any], bool]) -> None:
    """Keep only the visible elements of a repeated field."""
    kept = [each for each in items if is_shown(each)]
    if len(kept) < len(items):
        del items[:]
        items.extend(kept)


def _shown_groups(rights: PrincipalRights, reply: Reply) -> None:
    if not rights.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        _keep(
            reply.groups_listed.groups,
            lambda each: rights.may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id),
        )


def _shown_configs(rights: PrincipalRights, reply: Reply) -> None:
    _keep(
        reply.group_configs_described.groups,
        lambda each: rights.may(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, each.group_id),
    )


def _shown_offsets(rights: PrincipalRights, reply: Reply) -> None:
    for group in reply.offsets_fetched.groups:
        _keep(group.offsets, lambda each: rights.may_see(each.partition.topic_id))


def _shown_transactions(rights: PrincipalRights, reply: Reply) -> None:
    _keep(
        reply.transactions_listed.transactions,
        lambda each: rights.may(
            Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id
        ),
    )


def _shown_descriptions(rights: PrincipalRights, reply: Reply) -> None:
    for transaction in reply.transactions_described.transactions:
        _keep(transaction.partitions, lambda each: rights.may_see(each.topic_id))


def _shown_members(rights: PrincipalRights, reply: Reply) -> None:
    """As in Kafka (KIP-848), omit all members of a group if any of them has been assigned a topic that may not be
    described.

    Only topics in assignments and targets are considered, not those that a member merely subscribes to.
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


_SHOWN: Final[Mapping[str, Callable[[PrincipalRights, Reply], None]]] = {
    "consumer_groups_described": _shown_members,
    "group_configs_described": _shown_configs,
    "groups_listed": _shown_groups,
    "offsets_fetched": _shown_offsets,
    "transactions_described": _shown_descriptions,
    "transactions_listed": _shown_transactions,
}
