"""Advances a consumer group after a change: increases its epoch, computes targets, and journals the step."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from lacuna.controlplane.state.groups.consumer.group import Draft
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.state.groups.consumer.subscriptions import TopicCounts
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupStep
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.verbs import internal
from lacuna.controlplane.verbs.groups.consumer.assignors import Assign, Subscriber, assign_range
from lacuna.controlplane.verbs.groups.consumer.uniform import assign_uniform
from lacuna.controlplane.verbs.turn import Turn

#: Kafka's name of an assignor -> the function; the first is the default.
ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "range": assign_range}


def preferred_assignor(members: dict[str, Member]) -> str:
    """Return the assignor requested by the most members; in a tie, the first in ASSIGNORS."""
    votes = Counter(
        each.subscription.server_assignor
        for each in members.values()
        if each.subscription.server_assignor
    )
    return max(ASSIGNORS, key=votes.__getitem__)


def take_account(turn: Turn, draft: Draft, *, has_changed: bool) -> None:
    """Increase the group's epoch if `has_changed`, or if a subscribed topic was created, extended or deleted."""
    live = turn.groups.live_consumers.get(draft.group_id)
    version = turn.topics.version
    if not has_changed and live is not None and live.topics_version == version:
        return
    topics: dict[bytes, int] = {}
    for each in _distinct(_resolve(turn, member) for member in draft.members.values()):
        topics.update(each)
    if has_changed or topics != draft.topics:
        draft.group_epoch += 1
    draft.topics = topics
    draft.topics_version = version
    if not draft.members:
        draft.assignment_epoch = draft.group_epoch  # no member waits for an assignment


def assign_if_stale(turn: Turn, draft: Draft) -> None:
    """Compute new targets for all members if the assignment epoch is behind the group's epoch."""
    if draft.group_epoch <= draft.assignment_epoch:
        return
    assign = ASSIGNORS[preferred_assignor(draft.members)]
    draft.retarget(assign(*subscribers_of(turn, draft)))


def subscribers_of(turn: Turn, draft: Draft) -> tuple[list[Subscriber], TopicCounts]:
    """Return the members as assignors see them, and the subscribed topics ordered by name."""
    subscribers = [
        Subscriber(
            member_id=member_id,
            group_instance_id=member.subscription.group_instance_id,
            topics=_resolve(turn, member),
            target=member.target,
        )
        for member_id, member in sorted(draft.members.items())
    ]
    every: dict[bytes, int] = {}
    for topics in _distinct(each.topics for each in subscribers):
        every.update(topics)
    by_name = sorted(every.items(), key=lambda each: turn.topics.name_of(each[0]) or "")
    return subscribers, dict(by_name)


def _resolve(turn: Turn, member: Member) -> TopicCounts:
    wanted = member.subscription
    return turn.groups.resolver.resolve(turn.topics, wanted.topic_names, wanted.topic_regex)


def _distinct(resolved: Iterable[TopicCounts]) -> Iterable[TopicCounts]:
    """Drop repeated objects: for equal subscriptions, the resolver returns the same object."""
    return {id(each): each for each in resolved}.values()


def keep(turn: Turn, draft: Draft) -> LiveConsumerGroup:
    """Journal the draft's changes, then update and return the group's deadlines."""
    step = draft.to_step()
    if step is not None:
        turn.journal_group(GroupRecord(consumer_group_step=step))
    if draft.base is None:
        new = LiveConsumerGroup(moved_ms=turn.groups.live.moved_ms)
        live = turn.groups.live_consumers[draft.group_id] = new
    else:
        # After a restart, this may be the group's first use, which starts the sessions of all members.
        live = turn.groups.open_consumer(draft.base, turn.now_ms)
    if draft.topics_version is not None:
        live.topics_version = draft.topics_version
    for member_id, before in draft.changed.items():
        member = draft.members.get(member_id)
        if member is None:
            live.forget(member_id)
        else:
            live.follow(before, member, turn.now_ms)
    return live


def replay_consumer_group_step(state: State, record: ConsumerGroupStep, now_ms: int) -> None:
    internal.write_step(state, record, now_ms)
    state.groups.take_step(record)


REPLAYS: Final = (replay_consumer_group_step,)
