"""Parks JoinGroup and SyncGroup while a member waits for the others, and answers them in a later turn."""

from lacuna.controlplane.state.groups.live import LiveMember
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import GroupJoined, GroupSynced
from lacuna.controlplane.verbs.turn import Turn


def park(turn: Turn) -> int:
    """Park the current command, and return its token."""
    turn.groups.live.parked.add(turn.context.token)
    return turn.context.token


def answer_join(turn: Turn, member: LiveMember, joined: GroupJoined) -> None:
    """Answer the member's JoinGroup, if it is parked."""
    token, member.join_token = member.join_token, None
    _complete(turn, token, Reply(group_joined=joined))


def answer_sync(turn: Turn, member: LiveMember, synced: GroupSynced) -> bool:
    """Answer the member's SyncGroup, if it is parked, and return whether it was."""
    token, member.sync_token = member.sync_token, None
    _complete(turn, token, Reply(group_synced=synced))
    return token is not None


def _complete(turn: Turn, token: int | None, reply: Reply) -> None:
    if token is None or token not in turn.groups.live.parked:
        return
    turn.groups.live.parked.remove(token)
    turn.completions.append((token, reply))
