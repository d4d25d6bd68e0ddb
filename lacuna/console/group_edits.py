"""The changes to groups, with their forms, previews and requests."""

from collections.abc import Mapping, Sequence
from typing import Final

from lacuna.console import formats
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, agents_decide, check
from lacuna.console.groups import share_offsets
from lacuna.console.messages import WRITTEN_PLACES, bounds_of, place_of
from lacuna.console.site import BadRequest, NotThere, link
from lacuna.console.topics import topic_named
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.groups_pb2 import ListedGroup
from lacuna.operating import questions
from lacuna.operating.exchanges.groups import DELETE_GROUPS
from lacuna.operating.groups import SHARE, WITHOUT_MEMBERS, delete_offsets, move_offsets
from lacuna.wire.messages.groups import DeleteGroupsRequest

_COMMITTED: Final = 1


async def _group_of(turn: Turn) -> ListedGroup:
    """Return the group in the address. Raises NotThere, or BadRequest if the group has members."""
    group_id = turn.request.query_params.get("id", "")
    groups = await questions.groups(turn.site.sources.control)
    found = {each.group_id: each for each in groups}.get(group_id)
    if found is None or not turn.rights.group(group_id):
        raise NotThere(f"The group {group_id[:250]!r} does not exist.")
    if found.state not in WITHOUT_MEMBERS:
        raise BadRequest(
            f"group {formats.name(group_id)} is {found.state}: stop its consumers first, because they "
            "would continue from their own positions"
        )
    return found


def _page_of(turn: Turn) -> str:
    return link("/groups/group", id=turn.request.query_params.get("id", ""))


async def _committed(turn: Turn, group: ListedGroup) -> Mapping[tuple[bytes, int], int]:
    """Return a group's committed offsets, or a share group's start offsets, by topic id and partition."""
    control = turn.site.sources.control
    if group.group_type == SHARE:
        offsets = await share_offsets(control, group.group_id)
        return {
            (each.partition.topic_id, each.partition.partition): each.start_offset
            for each in offsets
        }
    (fetched,) = await questions.offsets_of(control, [group.group_id])
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
            hint="Leave empty for all topics that the group has read.",
            is_required=False,
        ),
    )


async def _topics_of(turn: Turn, read: set[bytes]) -> Sequence[Topic]:
    """Return the topic named in the form, or else all topics that the group has read."""
    if name := turn.text("topic"):
        return [await topic_named(turn.site, turn.request, name)]
    by_id = turn.site.sources.control.cluster.topics_by_id
    topics = [by_id[each] for each in read & by_id.keys() if turn.rights.topic(by_id[each].name)]
    return sorted(topics, key=lambda topic: topic.name)


async def _preview_reset(turn: Turn) -> Effect:
    group = await _group_of(turn)
    committed = await _committed(turn, group)
    topics = await _topics_of(turn, {topic_id for topic_id, _ in committed})
    if not topics:
        raise BadRequest("The group has no offsets yet: enter a topic.")
    rows: list[tuple[object, ...]] = []
    for topic in topics:
        bounds = await bounds_of(turn.site, topic, range(topic.partition_count), _COMMITTED)
        for index, at in (await place_of(turn.site, turn.request, bounds, turn.text("to"))).items():
            now = committed.get((topic.topic_id, index))
            change = "" if now is None else f"{at - now:+,}"
            rows.append((topic.name, str(index), "" if now is None else now, at, change))
    shown = formats.name(group.group_id)
    moves = f"Moves the committed offsets of {shown}."
    if group.group_type == SHARE:
        moves = f"Moves {shown} to other offsets. The group's earlier deliveries are forgotten."
    about = f"{moves} With a lower offset, the group receives records again. With a higher one, it skips records."
    return Effect(
        sentences=[about],
        headings=("Topic", "Partition", "Now", "Reset to", "Change"),
        rows=rows,
        pins={"moves": "\n".join(f"{topic} {index} {at}" for topic, index, _, at, _ in rows)},
    )


async def _apply_reset(turn: Turn) -> Done:
    group = await _group_of(turn)
    moves: dict[str, dict[int, int]] = {}
    for line in turn.text("moves").splitlines():
        name, index, at = line.split()
        moves.setdefault(name, {})[int(index)] = int(at)
    shares = group.group_type == SHARE
    for refused in await move_offsets(turn.ask, group.group_id, moves, shares=shares):
        check(refused.error_code, refused.subject, refused.message)
    return Done(f"Reset {formats.name(group.group_id)}.", _page_of(turn))


# --- delete the offsets of a topic ---


async def _offsets_fields(turn: Turn) -> Sequence[Field]:
    await _group_of(turn)
    return (
        Field(
            name="topic", label="Topic", hint="The topic for which the group's offsets are deleted."
        ),
    )


async def _preview_offsets(turn: Turn) -> Effect:
    group = await _group_of(turn)
    (topic,) = await _topics_of(turn, set())
    rows = [
        (topic.name, str(index), offset)
        for (topic_id, index), offset in sorted((await _committed(turn, group)).items())
        if topic_id == topic.topic_id
    ]
    if not rows:
        raise BadRequest(f"The group has no offsets in {topic.name}.")
    about = (
        f"Deletes the offsets of {formats.name(group.group_id)} in {topic.name}. This cannot be undone. The group then "
        "begins in this topic as a new group does."
    )
    return Effect(
        sentences=[about],
        headings=("Topic", "Partition", "Now"),
        rows=rows,
        pins={"partitions": " ".join(index for _, index, _ in rows)},
        is_destructive=True,
    )


async def _apply_offsets(turn: Turn) -> Done:
    group = await _group_of(turn)
    topics = {turn.text("topic"): [int(each) for each in turn.text("partitions").split()]}
    shares = group.group_type == SHARE
    for refused in await delete_offsets(turn.ask, group.group_id, topics, shares=shares):
        check(refused.error_code, refused.subject, refused.message)
    # A consumer group without members is removed when its last offset is deleted.
    is_left = shares or await _committed(turn, group)
    return Done(
        f"Deleted the offsets of {formats.name(group.group_id)} in {turn.text('topic')}.",
        _page_of(turn) if is_left else "/groups",
    )


# --- delete a group ---


async def _delete_fields(turn: Turn) -> Sequence[Field]:
    await _group_of(turn)
    return ()


async def _preview_delete(turn: Turn) -> Effect:
    group = await _group_of(turn)
    count = len(await _committed(turn, group))
    about = (
        f"Deletes the group {formats.name(group.group_id)} with its committed offsets (partitions: {count}), without "
        "a way back. If its consumers start again, they begin where their auto.offset.reset says."
    )
    return Effect(sentences=[about], is_destructive=True)


async def _apply_delete(turn: Turn) -> Done:
    group_id = (await _group_of(turn)).group_id
    response = await turn.ask(*DELETE_GROUPS, DeleteGroupsRequest([group_id]))
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
        path="/edit/group/offsets",
        title="Delete offsets",
        button="Delete the offsets",
        needs=agents_decide,
        fields=_offsets_fields,
        preview=_preview_offsets,
        apply=_apply_offsets,
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
