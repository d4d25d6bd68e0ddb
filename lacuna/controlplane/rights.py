"""The rights of jobs, whose sessions belong to neither an agent nor a control plane.

Jobs are compaction, exports, Spark's source and sink, verify, explain and the console. A job may use a verb whose row
declares the necessary rights. It can obtain nothing that would let it act as an agent or a user, neither the agents'
secret nor credentials or delegation tokens, and it may not use verbs that administer the cluster or serve clients. If
the control plane has an authorizer, ACLs control access to topics, and replies omit what a job may not describe.
Otherwise, a job may change any record.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.controlplane.machine import VERBS
from lacuna.controlplane.shared.acls import (
    EVERYBODY,
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
from lacuna.controlplane.shared.rights import PrincipalRights, Rule
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment


class Job(NamedTuple):
    """The identity of a job's session: the subject of its certificate, and its address."""

    subject: str
    host: str

    @property
    def principal(self) -> str:
        return str(Principal(USER, self.subject))


def refusals(commands: Sequence[Command]) -> list[Reply]:
    """Return a rejection for each command that jobs may not send."""
    return [
        Reply(
            command_id=command.command_id,
            failure=Failure(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                message=f"only agents and control planes may {str(verb).replace('_', ' ')}: "
                "controlplane.cluster.principals does not list the certificate of this process",
            ),
        )
        for command in commands
        if _rule(verb := command.WhichOneof("verb")) is None
    ]


def _rule(verb: str | None) -> Rule | None:
    row = VERBS.get(verb or "")
    return None if row is None else row.needs


def _names_no_transaction(command: CommitSegment) -> bool:
    """Whether a transactional batch lacks a transactional id, in which case no right would apply to it."""
    if len(command.batches) % COMMITTED_BATCH.size:
        return False  # the commit is malformed, and rejected as such
    return any(
        flags & FLAG_TRANSACTIONAL and not flags >> TRANSACTIONAL_ID_SHIFT
        for *_, flags in COMMITTED_BATCH.iter_unpack(command.batches)
    )


class JobRights(PrincipalRights):
    """The rights of one job's session, according to the ACLs at the time of each request."""

    def __init__(self, state: State, authorizer: Authorizer, audit: Audit, job: Job) -> None:
        principal = Principal(USER, job.subject)
        super().__init__(state, authorizer, audit, principal, job.host, _rule)
        self._state = state
        #: The ids of the topics that the job knows.
        self._told: set[bytes] = set()

    def failure(self, command: Command) -> Failure | None:
        """Return the reason why a command is rejected, or None if it is allowed."""
        if failure := super().failure(command):
            return failure
        if command.HasField("commit_segment") and _names_no_transaction(command.commit_segment):
            return Failure(
                error_code=DENIED[ResourceType.TRANSACTIONAL_ID],
                message=(
                    "a batch of a transaction does not specify its transactional id, so its rights "
                    "cannot be checked: commit it with its transactional id"
                ),
            )
        return None

    def shown(self, delta: ClusterDelta) -> ClusterDelta:
        """Return the part of a cluster change that the job may see, without users or ACLs."""
        told = ClusterDelta()
        told.CopyFrom(delta)
        told.ClearField("security")
        if delta.is_snapshot and not self._authorizer.is_super(self._principal):
            told.principal = str(self._principal)
        del told.topics[:], told.deleted_topic_ids[:]
        gone = [each for each in delta.deleted_topic_ids if each in self._told]
        if self._concerns(delta):
            topics = {each: topic.message() for each, topic in self._state.topics.items()}
            seen = {each: topic for each, topic in topics.items() if self.sees(topic.name)}
            gone += self._told & topics.keys() - seen.keys()
            changed = {each.topic_id for each in delta.topics}
            new = [seen[each] for each in seen if each in changed or each not in self._told]
        else:
            new = [each for each in delta.topics if self.sees(each.name)]
        told.deleted_topic_ids.extend(gone)
        told.topics.extend(new)
        self._told.difference_update(gone)
        self._told.update(each.topic_id for each in new)
        return told

    def _concerns(self, delta: ClusterDelta) -> bool:
        """Whether ACLs that affect the job's view have changed."""
        changed = [*delta.security.added_acls, *delta.security.removed_acls]
        if not changed or delta.is_snapshot:
            return False
        if self._authorizer.allows_without_acls:
            return True
        return any(each.principal in (str(self._principal), EVERYBODY) for each in changed)
