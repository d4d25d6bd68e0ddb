"""The changes of groups: a row for each, with its form, its preview, and the requests to an agent."""

from collections.abc import Mapping, Sequence
from typing import Final

from lacuna.console import formats
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, agents_decide, check
from lacuna.console.messages import WRITTEN_PLACES, bounds_of, place_of
from lacuna.console.site import BadRequest, NotThere, link
from lacuna.console.topics import topic_named
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import ListGroups, OffsetFetch, OffsetFetchGroup
from lacuna.wire.messages.delete_groups import (
    DELETE_GROUPS_REQUEST,
    DELETE_GROUPS_RESPONSE,
    DeleteGroupsRequest,
)
from lacuna.wire.messages.offset_commit import (
    OFFSET_COMMIT_REQUEST,
    OFFSET_COMMIT_RESPONSE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

_COMMITTED: Final = 1
#: The states of a group without members.
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")


async def _group_of(turn: Turn) -> str:
    """Return the id of the group in the address. Raises NotThere, and BadRequest if it has members."""
    group_id = turn.request.query_params.get("id", "")
    listed = await turn.site.sources.control.call(Command(list_groups=ListGroups()))
    states = {each.group_id: each.state for each in listed.groups_listed.groups}
    if group_id not in states or not turn.rights.group(group_id):
        raise NotThere(f"The group {group_id[:250]!r} does not exist.")
    if states[group_id] not in _WITHOUT_MEMBERS:
        raise BadRequest(
            f"group {formats.name(group_id)} is {states[group_id]}: stop its consumers first, because they would go on "
            "from their own positions"
        )
    return group_id


def _page_of(turn: Turn) -> str:
    return link("/groups/group", id=turn.request.query_params.get("id", ""))


async def _committed(turn: Turn, group_id: str) -> Mapping[tuple[bytes, int], int]:
    """Return the committed offsets of a group by topic id and partition."""
    query = OffsetFetch(groups=[OffsetFetchGroup(group_id=group_id, all_partitions=True)])
    reply = await turn.site.sources.control.call(Command(offset_fetch=query))
    (fetched,) = reply.offsets_fetched.groups
    return {
        (each.partition.topic_id, each.partition.partition): each.offset for each in fetched.offsets
    }


# --- reset a group ---


async def _reset_fields(turn: Turn) -> Sequence[Field]:
    await _group_of(turn)
    return (
        Field(name="to", label="Continue at", hint=f"{WRITTEN_PLACES}."),
        Field(
            name="topic",
            label="Topic",
            hint="Without a name, all topics that the group has read.",
            is_required=False,
        ),
    )


async def _topics_of(turn: Turn, read: set[bytes]) -> Sequence[Topic]:
    """Return the topic that the form names, or those that the group has read."""
    if name := turn.text("topic"):
        return [await topic_named(turn.site, turn.request, name)]
    by_id = turn.site.sources.control.cluster.topics_by_id
    topics = [by_id[each] for each in read & by_id.keys() if turn.rights.topic(by_id[each].name)]
    return sorted(topics, key=lambda topic: topic.name)


async def _preview_reset(turn: Turn) -> Effect:
    group_id = await _group_of(turn)
    committed = await _committed(turn, group_id)
    topics = await _topics_of(turn, {topic_id for topic_id, _ in committed})
    if not topics:
        raise BadRequest("The group has not committed any offsets: name a topic.")
    rows: list[tuple[object, ...]] = []
    for topic in topics:
        bounds = await bounds_of(turn.site, topic, range(topic.partition_count), _COMMITTED)
        for index, at in (await place_of(turn.site, turn.request, bounds, turn.text("to"))).items():
            now = committed.get((topic.topic_id, index))
            change = "" if now is None else f"{at - now:+,}"
            rows.append((topic.name, str(index), "" if now is None else now, at, change))
    about = (
        f"Moves the committed offsets of {formats.name(group_id)}. With a lower offset, the group receives records "
        "again. With a higher one, it skips records."
    )
    return Effect(
        sentences=[about],
        headings=("Topic", "Partition", "Committed", "Reset to", "Change"),
        rows=rows,
        pins={"moves": "\n".join(f"{topic} {index} {at}" for topic, index, _, at, _ in rows)},
    )


async def _apply_reset(turn: Turn) -> Done:
    group_id = await _group_of(turn)
    moves: dict[str, list[OffsetCommitRequestPartition]] = {}
    for line in turn.text("moves").splitlines():
        name, index, at = line.split()
        moves.setdefault(name, []).append(OffsetCommitRequestPartition(int(index), int(at)))
    topics = [OffsetCommitRequestTopic(name, partitions=each) for name, each in moves.items()]
    response = await turn.ask(
        OFFSET_COMMIT_REQUEST,
        OFFSET_COMMIT_RESPONSE,
        8,
        OffsetCommitRequest(group_id, topics=topics),
    )
    for topic in response.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name} [{each.partition_index}]")
    return Done(f"Reset {formats.name(group_id)}.", _page_of(turn))


# --- delete a group ---


async def _delete_fields(turn: Turn) -> Sequence[Field]:
    await _group_of(turn)
    return ()


async def _preview_delete(turn: Turn) -> Effect:
    group_id = await _group_of(turn)
    count = len(await _committed(turn, group_id))
    about = (
        f"Deletes the group {formats.name(group_id)} with its committed offsets (partitions: {count}), without a way "
        "back. If its consumers start again, they begin where their auto.offset.reset says."
    )
    return Effect(sentences=[about], is_destructive=True)


async def _apply_delete(turn: Turn) -> Done:
    group_id = await _group_of(turn)
    response = await turn.ask(
        DELETE_GROUPS_REQUEST, DELETE_GROUPS_RESPONSE, 2, DeleteGroupsRequest([group_id])
    )
    (result,) = response.results
    check(result.error_code, f"group {formats.name(group_id)}")
    return Done(f"Deleted the group {formats.name(group_id)}.", "/groups")


EDITS: Final = (
    Edit(
        path="/edit/group/reset",
        title="Reset the group",
        button="Reset",
        needs=agents_decide,
        fields=_reset_fields,
        preview=_preview_reset,
        apply=_apply_reset,
        on="group",
        back=_page_of,
    ),
    Edit(
        path="/edit/group/delete",
        title="Delete the group",
        button="Delete the group",
        needs=agents_decide,
        fields=_delete_fields,
        preview=_preview_delete,
        apply=_apply_delete,
        on="group",
        back=_page_of,
    ),
)
