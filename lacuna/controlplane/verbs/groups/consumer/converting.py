"""Converts groups with members between the classic and the consumer protocol.

This is Kafka's default, group.consumer.migration.policy=bidirectional. The first member that speaks the consumer
protocol upgrades a classic group. Once the last such member is gone, the remaining classic members form a classic group
again. The next member that joins an empty group determines its kind.
"""

from collections.abc import Collection, Mapping

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.consumer.assignments import Assignment
from lacuna.controlplane.state.groups.consumer.group import Draft
from lacuna.controlplane.state.groups.consumer.member import (
    Classic,
    Current,
    Member,
    Subscription,
    shared_names,
)
from lacuna.controlplane.state.groups.live import LiveGroup, LiveMember
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.v1.groups_pb2 import GroupJoined, GroupSynced
from lacuna.controlplane.verbs.groups.consumer import embedded
from lacuna.controlplane.verbs.groups.rebalance import (
    answer_join,
    answer_sync,
    keep_generation,
    prepare_rebalance,
)
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn

CONSUMER_PROTOCOL_TYPE = "consumer"


def upgrade(turn: Turn, group: LiveGroup) -> Draft:
    """Return a draft of the consumer group that replaces a classic group with members.

    All members start as stable, with their assignments from the last generation. The heartbeat that causes the upgrade
    increases the epoch, so they rejoin. Raises Refused if the group has a different protocol type, or if its members'
    metadata is malformed.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise Refused(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
        )
    draft = Draft(group.group_id, None)
    draft.group_epoch = draft.assignment_epoch = group.generation_id
    taken: set[tuple[bytes, int]] = set()
    try:
        for member in group.members.values():
            draft.put(_to_consumer(turn, group, member, taken))
    except embedded.MalformedProtocolError as error:
        raise Refused(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {group.group_id} to consumer group because the"
            f" embedded consumer protocol is malformed: {error}.",
        ) from error
    draft.owners = dict.fromkeys(taken, "")
    draft.upgraded = group
    return draft


def _to_consumer(
    turn: Turn, group: LiveGroup, member: LiveMember, taken: set[tuple[bytes, int]]
) -> Member:
    names = [name for name, _ in member.protocols]
    name = group.protocol_name if group.protocol_name in names else names[0]
    subscription = embedded.read_subscription(member.metadata_of(name))
    assigned = ids_of(turn, embedded.read_assignment(member.assignment))
    # Clients made these assignments, so two members may have the same partition. A consumer group allows only one.
    own: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in assigned.items():
        free = frozenset(each for each in partitions if (topic_id, each) not in taken)
        taken.update((topic_id, each) for each in free)
        if free:
            own[topic_id] = free
    epoch = group.generation_id
    return Member(
        member_id=member.member_id,
        subscription=Subscription(
            group_instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=shared_names(subscription.topic_names),
            classic=Classic(
                session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
            ),
        ),
        target=own,
        current=Current(
            member_epoch=epoch, previous_member_epoch=epoch, assigned=own, taken_epoch=epoch
        ),
    )


def end_upgrade(turn: Turn, group: LiveGroup) -> None:
    """Make members that wait in the upgraded classic group rejoin, and drop that group."""
    for member in group.members.values():
        busy = ErrorCode.REBALANCE_IN_PROGRESS
        answer_join(turn, member, GroupJoined(error_code=busy, member_id=member.member_id))
        answer_sync(turn, member, GroupSynced(error_code=busy))
    turn.groups.live.groups.pop(group.group_id, None)


def is_downgrade(
    turn: Turn, draft: Draft, leaving: Collection[str], *, is_replaced: bool = False
) -> bool:
    """Whether the group becomes classic once the `leaving` members are gone.

    This requires that a leaving member speaks the consumer protocol, that all remaining members speak the classic one,
    and that they fit into a classic group. If no members remain, a classic member must replace one (`is_replaced`).
    """
    others = [each for member_id, each in draft.members.items() if member_id not in leaving]
    has_last = not all(draft.members[each].is_classic for each in leaving)
    fits = len(others) <= turn.groups.settings.group_max_size
    return has_last and fits and (bool(others) or is_replaced) and all(e.is_classic for e in others)


def downgrade(turn: Turn, draft: Draft, *, rebalances: bool) -> None:
    """Turn the group, whose remaining members all speak the classic protocol, into a classic group."""
    group = LiveGroup(
        group_id=draft.group_id,
        state=GroupState.STABLE,
        generation_id=draft.group_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        moved_ms=turn.groups.live.moved_ms,
    )
    for member in draft.members.values():
        group.add(_to_classic(turn, member))
    group.protocol_name = group.select_protocol()
    turn.groups.live.groups[draft.group_id] = group
    turn.groups.live_consumers.pop(draft.group_id, None)
    keep_generation(turn, group.to_generation(turn.now_ms))
    for live in group.members.values():
        group.expect_heartbeat(live, turn.now_ms)
    if rebalances:
        prepare_rebalance(turn, group)


def _to_classic(turn: Turn, member: Member) -> LiveMember:
    subscription = member.subscription
    classic = subscription.classic or Classic(session_timeout_ms=0, protocols=())
    return LiveMember(
        member_id=member.member_id,
        group_instance_id=subscription.group_instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        protocols=classic.protocols,
        assignment=classic_assignment(turn, member),
    )


def classic_assignment(turn: Turn, member: Member) -> bytes:
    """Encode a classic member's assignment for SyncGroup, in its version of ConsumerProtocol."""
    classic = member.subscription.classic
    metadata = classic.protocols[0][1] if classic is not None else b"\0\0"
    version = int.from_bytes(metadata[:2], "big")
    partitions = {
        name: partitions
        for topic_id, partitions in member.current.assigned.items()
        if (name := turn.topics.name_of(topic_id)) is not None
    }
    return embedded.write_assignment(partitions, version)


def ids_of(turn: Turn, partitions: Mapping[str, frozenset[int]]) -> Assignment:
    """Convert partitions by topic name to an assignment, leaving out any that do not exist."""
    found: dict[bytes, frozenset[int]] = {}
    for name, indexes in partitions.items():
        topic = turn.topics.find(name)
        if topic is not None:
            within = frozenset(each for each in indexes if 0 <= each < topic[1])
            if within:
                found[topic[0]] = within
    return found
