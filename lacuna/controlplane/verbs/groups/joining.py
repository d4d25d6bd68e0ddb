"""JoinGroup: members join or rejoin a classic group (KIP-394 member ids, KIP-345 static members)."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.live import (
    SIZE_OF_NAME,
    LiveGroup,
    LiveMember,
    Protocols,
    size_of,
)
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.groups.states import REBALANCEABLE, GroupState
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration
from lacuna.controlplane.v1.groups_pb2 import GroupJoined, GroupSynced, JoinGroup
from lacuna.controlplane.verbs.groups.consumer import classic
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.groups.membership import find_member_error
from lacuna.controlplane.verbs.groups.rebalance import (
    answer_join,
    answer_sync,
    complete_join_if_all,
    joined_reply,
    keep_generation,
    park,
    prepare_rebalance,
    rebalance_or_complete,
    remove_member,
)
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: The maximum number of characters of an instance id or client id in a member id: before JoinGroup v6, strings hold at
#: most 32767 bytes.
_LONGEST_NAME: Final = 1000


@of_one_group
def join_group(turn: Turn, command: JoinGroup) -> Reply | None:
    """Answer immediately, or return None to park the command until all other members have joined."""
    error_code = _find_request_error(turn.groups.settings, command)
    if error_code:
        return _refuse(error_code, command.member_id)
    consumer = turn.groups.consumers.get(command.group_id)
    streams = turn.groups.streams.get(command.group_id)
    if command.group_id in turn.groups.shares or (streams is not None and streams.members):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id)
    if consumer is not None and consumer.members:
        return classic.join(turn, consumer, command)
    if consumer is not None or streams is not None:
        # The kind of an empty group is decided by the next member that joins it.
        keep_generation(turn, LiveGroup(group_id=command.group_id).to_generation(turn.now_ms))
    if command.member_id and not turn.groups.exists(command.group_id):
        return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)
    payer = turn.groups.payer(command.group_id, turn.principal)
    group = turn.groups.open(command.group_id, turn.now_ms)
    turn.groups.live.owners.own(command.group_id, payer)
    if not _has_room(turn, group, command):
        if command.member_id in group.members:
            _put_out(turn, group, command.member_id)
        return _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(command.protocol_type, (entry.name for entry in command.protocols)):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id)
    if command.member_id:
        return _join_known(turn, group, command)
    return _join_unknown(turn, group, command)


def _put_out(turn: Turn, group: LiveGroup, member_id: str) -> None:
    """Remove a member for which there is no longer room, and rebalance."""
    remove_member(turn, group, member_id)
    if group.state in REBALANCEABLE:
        prepare_rebalance(turn, group)


def _find_request_error(settings: GroupSettings, command: JoinGroup) -> ErrorCode:
    """Return an error code if the request is invalid regardless of the group's state, otherwise NONE."""
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not (
        settings.group_min_session_timeout_ms
        <= command.session_timeout_ms
        <= settings.group_max_session_timeout_ms
    ):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if size_of(_protocols_of(command)) > settings.member_metadata_max_bytes:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _has_room(turn: Turn, group: LiveGroup, command: JoinGroup) -> bool:
    """Whether the group has room for the member, within the bounds on members and on their metadata.

    During a rebalance, only members that have joined are counted. Pending member ids are bounded as well. All metadata
    must fit into the response to the leader.
    """
    max_size = turn.groups.settings.group_max_size
    member = group.members.get(command.member_id)
    before = size_of(member.protocols) if member is not None else 0
    metadata_size = group.metadata_size - before + size_of(_protocols_of(command))
    if metadata_size > turn.groups.settings.group_metadata_max_bytes:
        return False
    more = 0 if member is not None else SIZE_OF_NAME + len(command.group_id)
    grown = metadata_size - group.metadata_size + more
    if not turn.groups.has_room(command.group_id, grown, turn.principal):
        return False
    if not command.member_id and len(group.pending_joins) >= max_size:
        return False
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        is_back = member is not None and member.join_token is not None
        return is_back or sum(1 for _ in group.joined_members()) < max_size
    return member is not None or len(group.members) < max_size


def _join_unknown(turn: Turn, group: LiveGroup, command: JoinGroup) -> Reply | None:
    instance_id = command.group_instance_id
    name = (instance_id or command.client_id)[:_LONGEST_NAME]
    member_id = f"{name}-{_as_uuid(turn.context.new_id())}"
    if instance_id in group.static_members:
        return _replace_static(turn, group, command, member_id)
    if not instance_id and command.requires_known_member_id:
        deadline_ms = turn.now_ms + command.session_timeout_ms
        group.pending_joins[member_id] = deadline_ms
        group.note_due(deadline_ms)
        return _refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add_member(turn, group, command, member_id)


def _join_known(turn: Turn, group: LiveGroup, command: JoinGroup) -> Reply | None:
    if command.member_id in group.pending_joins and not command.group_instance_id:
        return _add_member(turn, group, command, command.member_id)
    error_code = find_member_error(group, command.member_id, command.group_instance_id)
    if error_code:
        return _refuse(error_code, command.member_id)
    member = group.members[command.member_id]
    if _is_up_to_date(group, member, command):
        return Reply(group_joined=joined_reply(group, member))
    _update_member(turn, group, member, command)
    rebalance_or_complete(turn, group)
    return None


def _is_up_to_date(group: LiveGroup, member: LiveMember, command: JoinGroup) -> bool:
    """Whether the current generation already fits this JoinGroup and no rebalance is needed.

    It does if the response to an earlier JoinGroup was lost, or if an unchanged follower rejoins. The leader of a
    stable group rejoins to reassign partitions, for example after a topic has grown.
    """
    if member.protocols != _protocols_of(command):
        return False
    if group.state is GroupState.COMPLETING_REBALANCE:
        return True
    return group.state is GroupState.STABLE and member.member_id != group.leader


def _add_member(turn: Turn, group: LiveGroup, command: JoinGroup, member_id: str) -> Reply | None:
    member = LiveMember(
        member_id=member_id,
        group_instance_id=command.group_instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=_protocols_of(command),
        is_new=True,
        join_token=park(turn),
    )
    if not group.members:
        group.protocol_type = command.protocol_type
    group.has_new_member = group.is_initial_rebalance
    group.add(member)
    group.expect_heartbeat(member, turn.now_ms, turn.groups.settings.new_member_join_timeout_ms)
    rebalance_or_complete(turn, group)
    return None


def _update_member(turn: Turn, group: LiveGroup, member: LiveMember, command: JoinGroup) -> None:
    """Store the member's new protocols. An earlier JoinGroup that is still parked receives REBALANCE_IN_PROGRESS."""
    answer_join(turn, member, GroupJoined(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.change_protocols(member, _protocols_of(command))
    member.session_timeout_ms = command.session_timeout_ms
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.client_id = command.client_id
    member.client_host = command.client_host
    member.join_token = park(turn)


def _replace_static(
    turn: Turn, group: LiveGroup, command: JoinGroup, member_id: str
) -> Reply | None:
    """Give a rejoining static member a new id, and fence the old one (KIP-345)."""
    old_leader = group.leader
    old_member_id = group.static_members[command.group_instance_id]
    member = group.rename(old_member_id, member_id)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    answer_join(turn, member, GroupJoined(error_code=fenced, member_id=old_member_id))
    answer_sync(turn, member, GroupSynced(error_code=fenced))
    _update_member(turn, group, member, command)
    group.expect_heartbeat(member, turn.now_ms)
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        return _keep_replacement(turn, group, member, command, old_leader)
    _keep_new_id(turn, group.group_id, old_member_id, member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all(turn, group)
    else:
        # The leader may be assigning partitions to the old id at this moment.
        prepare_rebalance(turn, group)
    return None


def _keep_replacement(
    turn: Turn, group: LiveGroup, member: LiveMember, command: JoinGroup, old_leader: str
) -> Reply | None:
    """Answer a replaced static member without a rebalance. If it is the leader, tell it to skip the assignment."""
    keep_generation(turn, group.to_generation(turn.now_ms))
    reply = joined_reply(group, member)
    if not command.supports_skipping_assignment:
        # Before v9, a leader always assigns, so it must not learn that it is the leader.
        reply.leader = old_leader
        del reply.members[:]
    elif member.member_id == group.leader:
        reply.skip_assignment = True
    answer_join(turn, member, reply)
    return None


def _keep_new_id(turn: Turn, group_id: str, old_member_id: str, new_member_id: str) -> None:
    """Rename the member in the last journalled generation, whatever the outcome of this rebalance.

    Otherwise, a restart before the next generation would fence the new id and revive the old one.
    """
    generation = turn.groups.generations.get(group_id)
    if generation is None or old_member_id not in [each.member_id for each in generation.members]:
        return
    renamed = GroupGeneration()
    renamed.CopyFrom(generation)
    for member in renamed.members:
        if member.member_id == old_member_id:
            member.member_id = new_member_id
    if renamed.leader == old_member_id:
        renamed.leader = new_member_id
    keep_generation(turn, renamed)


def _protocols_of(command: JoinGroup) -> Protocols:
    return tuple((entry.name, entry.metadata) for entry in command.protocols)


def _as_uuid(identifier: bytes) -> str:
    text = identifier.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _refuse(error_code: ErrorCode, member_id: str = "") -> Reply:
    return Reply(group_joined=GroupJoined(error_code=error_code, member_id=member_id))


VERBS: Final = (Verb(join_group),)
