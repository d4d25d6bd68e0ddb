"""Members of a consumer group that speak the classic protocol, during an upgrade or a downgrade.

They send JoinGroup, SyncGroup and Heartbeat as before, but do not wait for each other. Each member has its own epoch,
which it sees as a generation, and moves one step towards its target whenever it joins. The response to a heartbeat
tells it when to rejoin. There is no leader, since the coordinator assigns the partitions.
"""

from dataclasses import replace

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup, Draft
from lacuna.controlplane.state.groups.consumer.live import Deadline
from lacuna.controlplane.state.groups.consumer.member import (
    Classic,
    Member,
    Subscription,
    shared_names,
)
from lacuna.controlplane.state.groups.consumer.states import MemberState
from lacuna.controlplane.v1.cluster_pb2 import Outcome, Outcomes
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import (
    GroupJoined,
    GroupSynced,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from lacuna.controlplane.verbs.groups.consumer import embedded, finding
from lacuna.controlplane.verbs.groups.consumer.advance import assign_if_stale, keep, take_account
from lacuna.controlplane.verbs.groups.consumer.converting import (
    CONSUMER_PROTOCOL_TYPE,
    classic_assignment,
    downgrade,
    ids_of,
    is_downgrade,
)
from lacuna.controlplane.verbs.groups.consumer.heartbeat import put_out
from lacuna.controlplane.verbs.groups.consumer.reconcile import reconcile
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn


def join(turn: Turn, group: ConsumerGroup, command: JoinGroup) -> Reply:
    """Decide a JoinGroup. The caller has checked the session timeout."""
    try:
        return Reply(group_joined=_join(turn, group, command))
    except Refused as refused:
        joined = GroupJoined(error_code=refused.code, member_id=command.member_id)
        return Reply(group_joined=joined)


def _join(turn: Turn, group: ConsumerGroup, command: JoinGroup) -> GroupJoined:
    draft = Draft(command.group_id, group)
    finding.check_room(turn, draft, command.member_id)
    if not _supports(draft, command):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    instance_id = command.group_instance_id
    member_id = command.member_id or turn.context.new_id().hex()
    if not command.member_id and not instance_id and command.requires_known_member_id:
        return GroupJoined(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    asked = _read(command)
    replaced = draft.static_members.get(instance_id) if instance_id else None
    is_downgraded = replaced is not None and is_downgrade(turn, draft, {replaced}, is_replaced=True)
    if instance_id and command.member_id:
        before = finding.find_static(draft, member_id, instance_id)
    elif instance_id:
        before = finding.join_static(draft, member_id, instance_id, is_classic=True)
    else:
        before = draft.members.get(member_id) or Member(member_id=member_id)
    member = replace(before, subscription=_subscription(before, command, asked))
    names = (before.subscription.topic_names, before.subscription.topic_regex)
    has_changed = member_id not in draft.members or names != (member.subscription.topic_names, "")
    finding.put_within_bounds(turn, draft, member)
    take_account(turn, draft, has_changed=has_changed)
    assign_if_stale(turn, draft)
    owned = ids_of(turn, asked.owned)
    draft.put(reconcile(draft.members[member_id], draft.assignment_epoch, draft.owners, owned))
    return _end_join(turn, draft, member_id, is_downgraded=is_downgraded)


def _end_join(turn: Turn, draft: Draft, member_id: str, *, is_downgraded: bool) -> GroupJoined:
    member = draft.members[member_id]
    if is_downgraded:
        downgrade(turn, draft, rebalances=False)
    else:
        live = keep(turn, draft)
        live.clear(member_id, Deadline.JOIN)
        live.expect_heartbeat(
            member, turn.groups.consumer_session_timeout_ms(draft.group_id), turn.now_ms
        )
        due_ms = turn.now_ms + max(member.subscription.rebalance_timeout_ms, 0)
        live.set(member_id, Deadline.SYNC, due_ms)
    return GroupJoined(
        generation_id=member.current.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=_first_protocol(member),
        member_id=member_id,
    )


def _read(command: JoinGroup) -> embedded.EmbeddedSubscription:
    try:
        return embedded.read_subscription(command.protocols[0].metadata)
    except embedded.MalformedProtocolError as error:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _supports(draft: Draft, command: JoinGroup) -> bool:
    """Whether the joining member shares a protocol with all classic members."""
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not command.protocols:
        return False
    spoken = [
        {name for name, _ in each.subscription.classic.protocols}
        for each in draft.members.values()
        if each.subscription.classic is not None
    ]
    return any(all(entry.name in names for names in spoken) for entry in command.protocols)


def _subscription(
    before: Member, command: JoinGroup, asked: embedded.EmbeddedSubscription
) -> Subscription:
    protocols = tuple((each.name, each.metadata) for each in command.protocols)
    return Subscription(
        group_instance_id=command.group_instance_id or before.subscription.group_instance_id,
        rack_id=asked.rack_id or before.subscription.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        topic_names=shared_names(asked.topic_names),
        classic=Classic(session_timeout_ms=command.session_timeout_ms, protocols=protocols),
    )


def _first_protocol(member: Member) -> str:
    classic = member.subscription.classic
    return classic.protocols[0][0] if classic is not None else ""


def sync(turn: Turn, group: ConsumerGroup, command: SyncGroup) -> Reply:
    """Decide a SyncGroup, which returns the member's partitions immediately."""
    try:
        member = _find(group, command)
        first = _first_protocol(member)
        if command.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if command.protocol_name not in ("", first):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        live = turn.groups.open_consumer(group, turn.now_ms)
        is_behind = group.group_epoch > member.current.member_epoch
        if is_behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            _expect_join(turn, group, member)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    except Refused as refused:
        return Reply(group_synced=GroupSynced(error_code=refused.code))
    live.clear(member.member_id, Deadline.SYNC)
    live.expect_heartbeat(
        member, turn.groups.consumer_session_timeout_ms(group.group_id), turn.now_ms
    )
    synced = GroupSynced(
        protocol_type=command.protocol_type,
        protocol_name=command.protocol_name,
        assignment=classic_assignment(turn, member),
    )
    return Reply(group_synced=synced)


def heartbeat(turn: Turn, group: ConsumerGroup, command: Heartbeat) -> Reply:
    """Decide a Heartbeat. A member that should rejoin receives REBALANCE_IN_PROGRESS."""
    try:
        member = _find(group, command)
    except Refused as refused:
        return Reply(heartbeat_answered=Outcome(error_code=refused.code))
    live = turn.groups.open_consumer(group, turn.now_ms)
    live.expect_heartbeat(
        member, turn.groups.consumer_session_timeout_ms(group.group_id), turn.now_ms
    )
    current = member.current
    draft = Draft(group.group_id, group)
    has_step = (
        current.member_epoch < group.group_epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (
            current.state is MemberState.UNRELEASED_PARTITIONS
            and not draft.is_waiting_for_others(member)
        )
    )
    if has_step:
        _expect_join(turn, group, member)
    code = ErrorCode.REBALANCE_IN_PROGRESS if has_step else ErrorCode.NONE
    return Reply(heartbeat_answered=Outcome(error_code=code))


def _expect_join(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    live = turn.groups.open_consumer(group, turn.now_ms)
    due_ms = turn.now_ms + max(member.subscription.rebalance_timeout_ms, 0)
    live.set_if_absent(member.member_id, Deadline.JOIN, due_ms)


def _find(group: ConsumerGroup, command: SyncGroup | Heartbeat) -> Member:
    """Return the classic member that sent the command, after checking its generation. Raises Refused."""
    draft = Draft(group.group_id, group)
    member = finding.find_member(draft, command.member_id, command.group_instance_id)
    if not member.is_classic:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.current.member_epoch != command.generation_id:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def leave(turn: Turn, group: ConsumerGroup, command: LeaveGroup) -> Reply:
    """Decide a LeaveGroup. Since operators also send it, the members can speak either protocol."""
    draft = Draft(group.group_id, group)
    leaving: set[str] = set()
    error_codes = []
    for each in command.members:
        try:
            member_id = _leaving_id(draft, each)
        except Refused as refused:
            error_codes.append(refused.code)
            continue
        if member_id in leaving:
            error_codes.append(ErrorCode.UNKNOWN_MEMBER_ID)
            continue
        leaving.add(member_id)
        error_codes.append(ErrorCode.NONE)
    if leaving:
        put_out(turn, draft, leaving)
    return Reply(group_left=Outcomes(error_codes=error_codes))


def _leaving_id(draft: Draft, leaving: LeavingMember) -> str:
    instance_id = leaving.group_instance_id
    # An operator removes a static member by its instance id alone.
    member_id = leaving.member_id or draft.static_members.get(instance_id, "")
    return finding.find_member(draft, member_id, instance_id).member_id
