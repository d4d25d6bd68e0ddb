"""Copies groups' committed offsets, ACLs and quotas from the source to the target, and lists the users.

A copy has the same offsets as its source, so groups' committed offsets are copied unchanged, but only up to the end of
the copy: a consumer that started beyond it would be reset. Committed offsets only move forward, because a group may
already have started to read from the target. A group that has members in the target is left alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.importing.cluster import (
    Broker,
    ClusterRefused,
    Kafka,
    Place,
    failure_of,
    in_parts,
    name_of,
)
from lacuna.wire.messages import security as wire
from lacuna.wire.messages.client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    DESCRIBE_CLIENT_QUOTAS_REQUEST,
    DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    OpData,
)
from lacuna.wire.messages.client_quotas import EntityData as AlteredEntity
from lacuna.wire.messages.client_quotas import EntryData as AlteredEntry
from lacuna.wire.messages.groups import LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE, ListGroupsRequest
from lacuna.wire.messages.offsets import (
    OFFSET_COMMIT_REQUEST,
    OFFSET_COMMIT_RESPONSE,
    OFFSET_FETCH_REQUEST,
    OFFSET_FETCH_RESPONSE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
)

_LIST_GROUPS_VERSION: Final = 4
#: The last versions that take one group per request, and that identify topics by name.
_OFFSET_FETCH_VERSION: Final = 7
_OFFSET_COMMIT_VERSION: Final = 8
_NO_GENERATION: Final = -1
#: Explains why the target rejects ACLs and quotas, where its own message does not say what to do.
_REASONS: Final[Mapping[int, str]] = {
    ErrorCode.SECURITY_DISABLED: "the agents here run without --authorizer. Restart them with it, then run the import "
    "again"
}
_AT_ONCE: Final = 1_000
_ANY: Final = 1
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_MEMBERS_HERE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset and the metadata that its consumer attached."""

    offset: int
    metadata: str


Offsets = dict[Place, Committed]


async def committed_offsets(cluster: Kafka) -> dict[str, Offsets]:
    """Return the committed offsets of every group that has any."""
    found: dict[str, Offsets] = {}
    await cluster.topics()  # fetches the list of brokers
    for node in cluster.nodes:
        broker = await cluster.broker(node)
        listed = await broker.ask(
            LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE, _LIST_GROUPS_VERSION, ListGroupsRequest()
        )
        if listed.error_code:
            raise failure_of(f"{cluster.what} did not list its groups", listed.error_code)
        for group in listed.groups:
            if offsets := await _offsets_of(broker, group.group_id):
                found[group.group_id] = offsets
    return found


async def _offsets_of(broker: Broker, group_id: str) -> Offsets:
    request = OffsetFetchRequest(group_id=group_id, topics=None)
    answer = await broker.ask(
        OFFSET_FETCH_REQUEST, OFFSET_FETCH_RESPONSE, _OFFSET_FETCH_VERSION, request
    )
    # A group that has just moved to another broker, or ended, is examined again in the next round.
    return {
        (topic.name, each.partition_index): Committed(each.committed_offset, each.metadata or "")
        for topic in answer.topics
        for each in topic.partitions
        if not answer.error_code and not each.error_code and each.committed_offset >= 0
    }


class Groups:
    """Copies committed offsets. `end_of` returns a partition's end in the target, or None to skip the partition.

    An offset beyond that end waits until the copy has reached it; with `is_final`, the end is committed instead.
    """

    def __init__(
        self,
        source: Kafka,
        target: Kafka,
        end_of: Callable[[Place], int | None],
        *,
        is_final: bool = False,
    ) -> None:
        self._source = source
        self._target = target
        self._end_of = end_of
        self._is_final = is_final
        self._here: dict[str, Offsets] | None = None
        #: The reasons why groups are not copied, by group name.
        self.left: dict[str, str] = {}

    async def copy(self) -> int:
        """Commit the offsets that are ahead of the target's, and return their number."""
        there = await committed_offsets(self._source)
        if self._here is None:
            self._here = await committed_offsets(self._target)
        count = 0
        for group_id, offsets in there.items():
            here = self._here.setdefault(group_id, {})
            ahead = {
                place: each
                for place, found in offsets.items()
                if (each := self._wanted(place, found)) and _is_ahead(here.get(place), each)
            }
            for some in in_parts(list(ahead.items()), _AT_ONCE):
                count += await self._commit(group_id, dict(some), here)
        return count

    def _wanted(self, place: Place, found: Committed) -> Committed | None:
        end = self._end_of(place)
        if end is None or (found.offset > end and not self._is_final):
            return None
        return Committed(min(found.offset, end), found.metadata)

    async def _commit(
        self, group_id: str, offsets: Mapping[Place, Committed], here: Offsets
    ) -> int:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), each in offsets.items():
            topics.setdefault(name, []).append(
                OffsetCommitRequestPartition(index, each.offset, committed_metadata=each.metadata)
            )
        request = OffsetCommitRequest(
            group_id,
            _NO_GENERATION,
            topics=[
                OffsetCommitRequestTopic(name, partitions=each) for name, each in topics.items()
            ],
        )
        try:
            coordinator = await self._target.coordinator(group_id)
        except ClusterRefused as error:
            self.left[group_id] = f"is not copied: {error}"
            return 0
        answer = await coordinator.ask(
            OFFSET_COMMIT_REQUEST, OFFSET_COMMIT_RESPONSE, _OFFSET_COMMIT_VERSION, request
        )
        count = 0
        for topic in answer.topics:
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                if partition.error_code == ErrorCode.NONE:
                    here[place] = offsets[place]
                    count += 1
                    self.left.pop(group_id, None)
                elif partition.error_code in _MEMBERS_HERE:
                    self.left[group_id] = (
                        f"has members in {self._target.what}, so its offsets are left alone"
                    )
                    self._here = None
                else:
                    self.left[group_id] = f"is not copied: {name_of(partition.error_code)}"
        return count


def _is_ahead(known: Committed | None, wanted: Committed) -> bool:
    return known is None or known.offset < wanted.offset


async def copy_rights(source: Kafka, target: Kafka) -> list[str]:
    """Copy ACLs and quotas, and return messages for the user. These name the users who need a password."""
    return [
        *await _copy_acls(source, target),
        *await _copy_quotas(source, target),
        *await _list_users(source),
    ]


async def _copy_acls(source: Kafka, target: Kafka) -> Sequence[str]:
    # Kafka 2.8 without ZooKeeper has no ACLs.
    if not source.knows(wire.DESCRIBE_ACLS_REQUEST):
        return ()
    found = await source.ask(
        wire.DESCRIBE_ACLS_REQUEST,
        wire.DESCRIBE_ACLS_RESPONSE,
        2,
        wire.DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY),
    )
    if found.error_code == ErrorCode.SECURITY_DISABLED:
        return ()
    if found.error_code:
        return [f"ACLs are not copied: the source does not show them ({name_of(found.error_code)})"]
    acls = [
        wire.AclCreation(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in found.resources
        for acl in each.acls
    ]
    failed: dict[str, int] = {}
    for some in in_parts(acls, _AT_ONCE):
        answer = await target.ask(
            wire.CREATE_ACLS_REQUEST, wire.CREATE_ACLS_RESPONSE, 2, wire.CreateAclsRequest(some)
        )
        _count(failed, ((each.error_code, each.error_message) for each in answer.results))
    return _refused(failed, f"{len(acls)} ACLs")


async def _copy_quotas(source: Kafka, target: Kafka) -> Sequence[str]:
    if not source.knows(DESCRIBE_CLIENT_QUOTAS_REQUEST):
        return ()
    found = await source.ask(
        DESCRIBE_CLIENT_QUOTAS_REQUEST,
        DESCRIBE_CLIENT_QUOTAS_RESPONSE,
        1,
        DescribeClientQuotasRequest(),
    )
    if found.error_code:
        return [
            f"quotas are not copied: the source does not show them ({name_of(found.error_code)})"
        ]
    entries = [
        AlteredEntry(
            [AlteredEntity(each.entity_type, each.entity_name) for each in entry.entity],
            [OpData(each.key, each.value) for each in entry.values],
        )
        for entry in found.entries or ()
    ]
    failed: dict[str, int] = {}
    for some in in_parts(entries, _AT_ONCE):
        answer = await target.ask(
            ALTER_CLIENT_QUOTAS_REQUEST,
            ALTER_CLIENT_QUOTAS_RESPONSE,
            1,
            AlterClientQuotasRequest(some),
        )
        _count(failed, ((each.error_code, each.error_message) for each in answer.entries))
    return _refused(failed, f"{len(entries)} quotas")


def _count(failed: dict[str, int], results: Iterable[tuple[int, str | None]]) -> None:
    for code, message in results:
        if code:
            why = _REASONS.get(code) or message or name_of(code)
            failed[why] = failed.get(why, 0) + 1


def _refused(failed: Mapping[str, int], all_of_them: str) -> list[str]:
    return [f"{count} of {all_of_them} were not copied: {why}" for why, count in failed.items()]


async def _list_users(source: Kafka) -> Sequence[str]:
    """Return a message for each user who has a password at the source. The source reveals no passwords or hashes."""
    if not source.knows(wire.DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST):
        return ()
    found = await source.ask(
        wire.DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
        wire.DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
        0,
        wire.DescribeUserScramCredentialsRequest(None),
    )
    if found.error_code:
        return [
            f"users are not listed: the source does not show them ({name_of(found.error_code)})"
        ]
    return [
        f"user {each.user} needs a password here (`lacuna users add {each.user}`): the source does not reveal "
        "passwords. At the source, the user logs in with "
        f"{' or '.join(_MECHANISMS.get(info.mechanism, '?') for info in each.credential_infos)}"
        for each in found.results
        if each.credential_infos
    ]
