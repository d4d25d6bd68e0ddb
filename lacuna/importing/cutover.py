"""Reports the progress of copies, and promotes them to independent topics."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.base.errors import UserError
from lacuna.importing.cluster import (
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClusterFailed,
    Kafka,
    Place,
    TopicThere,
    link_of,
    show,
)
from lacuna.importing.groups import Groups
from lacuna.importing.topics import links_of, promote
from lacuna.importing.transactions import hanging_transactions, source_transactions
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.operating.kafka import Agents

_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Standing:
    """The end of a mirrored partition's copy, and the source's last stable offset and high watermark."""

    place: Place
    copied: int
    stable_offset: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """The number of offsets that the source has decided but the copy lacks."""
        return max(0, self.stable_offset - self.copied)

    @property
    def undecided(self) -> int:
        """The number of offsets that the source has not decided."""
        return self.high_watermark - self.stable_offset


async def mirrors_of(source: Kafka, target: Kafka) -> dict[str, TopicThere]:
    """Return the source's topics that have a mirror in the target, by name."""
    there = await source.topics()
    links = await links_of(target)
    return {
        name: topic
        for name, topic in sorted(there.items())
        if links.get(name) == link_of(source, topic)
    }


async def standings(
    source: Kafka, target: Kafka, names: Sequence[str] | None = None
) -> list[Standing]:
    """Return the progress of each partition of the named mirrors, or of all mirrors."""
    mirrors = await mirrors_of(source, target)
    places = [
        (name, index)
        for name, topic in mirrors.items()
        if names is None or name in names
        for index in range(len(topic.leaders))
    ]
    # The source is queried last, so that what it decides in the meantime counts as lag.
    copied = await target.offsets(places, LATEST, READ_UNCOMMITTED)
    stable = await source.offsets(places, LATEST, READ_COMMITTED)
    ends = await source.offsets(places, LATEST, READ_UNCOMMITTED)
    return [
        Standing(place, copied.get(place, 0), stable[place], ends[place])
        for place in places
        if place in stable and place in ends
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """The mirrors to promote, once each partition is complete or has reached its offset in `offsets`.

    The promotion waits up to `wait_seconds` for this. With `is_forced`, it happens immediately, even if records are
    missing.
    """

    names: Sequence[str] = ()
    is_all: bool = False
    is_forced: bool = False
    offsets: Mapping[Place, int] = field(default_factory=dict)
    wait_seconds: float = 0.0


async def cut_over(source: Agents, target: Agents, given: Cutover) -> list[str]:
    """Promote mirrors, and return a message for each. If any cannot be promoted, none is, and UserError is raised."""
    async with Kafka(target, "the target") as here:
        links = await links_of(here)
        chosen = sorted(links) if given.is_all else list(dict.fromkeys(given.names))
        _check_names(chosen, links, given)
        try:
            async with Kafka(source, "the source") as there:
                if given.is_all:
                    ours = await mirrors_of(there, here)
                    chosen = [name for name in chosen if name in ours]
                return await _promote_at_end(there, here, chosen, given)
        except ClusterFailed as error:
            if not given.is_forced:
                raise UserError(
                    f"{error}; if the source is gone for good, promote with --force"
                ) from error
            await promote(here, chosen)
            return [f"promoted {name} without checking the source" for name in chosen]


def _check_names(chosen: Sequence[str], links: Mapping[str, str], given: Cutover) -> None:
    if not chosen:
        reason = (
            "there are no mirrors"
            if given.is_all
            else "no topics are specified: specify some, or add --all"
        )
        raise UserError(f"nothing was promoted: {reason}")
    for name in chosen:
        if name not in links:
            raise UserError(
                f"{name} is not a mirror here, so there is nothing to promote: `lacuna import status` lists the mirrors"
            )


async def _promote_at_end(
    source: Kafka, target: Kafka, names: Sequence[str], given: Cutover
) -> list[str]:
    before = {each.place: each for each in await _complete(source, target, names, given)}
    copied = {place: each.copied for place, each in before.items()}
    groups = Groups(source, target, copied.get)
    await groups.copy()
    await promote(target, names)
    ends = await source.offsets(before, LATEST, READ_UNCOMMITTED)
    late = {
        name: sum(
            ends[place] - copied[place] for place in copied if place[0] == name and place in ends
        )
        for name in names
    }
    return [_line(name, late[name]) for name in names] + [
        f"group {group_id} {why}" for group_id, why in groups.left.items()
    ]


async def _complete(
    source: Kafka, target: Kafka, names: Sequence[str], given: Cutover
) -> list[Standing]:
    """Wait until mirrors may be promoted, and return their progress. Raises UserError if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + given.wait_seconds
    while True:
        found = await standings(source, target, names)
        if given.is_forced:
            return found
        _check_offsets(found, given)
        missing = [each for each in found if _is_missing(each, given)]
        if not missing:
            return found
        if loop.time() >= deadline:
            raise UserError(await _why_not(source, missing[0], given))
        await asyncio.sleep(_PAUSE_SECONDS)


def _check_offsets(found: Sequence[Standing], given: Cutover) -> None:
    unknown = given.offsets.keys() - {each.place for each in found}
    if unknown:
        raise UserError(
            f"nothing was promoted: an offset was specified for {show(min(unknown))}, which is not among the "
            "partitions to promote: specify its topic as well, and check the partition"
        )


def _is_missing(each: Standing, given: Cutover) -> bool:
    wanted = given.offsets.get(each.place)
    return bool(each.lag or each.undecided) if wanted is None else each.copied < wanted


async def _why_not(source: Kafka, each: Standing, given: Cutover) -> str:
    if (wanted := given.offsets.get(each.place)) is not None:
        return (
            f"nothing was promoted: {show(each.place)}: the copy ends at offset {each.copied}, before {wanted}; "
            "let `lacuna import run` catch up, and try again"
        )
    if each.lag:
        what = f"{each.lag} offsets have not been copied yet"
    elif hanging := await hanging_transactions(source, [each.place], wall_clock_ms()):
        return f"nothing was promoted: {hanging[0]}"
    else:
        holders = [
            repr(of.transactional_id)
            for of in await source_transactions(source)
            if each.place in of.partitions
        ]
        whose = f" of {', '.join(holders)}" if holders else ""
        what = (
            f"{each.undecided} offsets are undecided at the source, because they are in or after an open "
            f"transaction{whose}"
        )
    return (
        f"nothing was promoted: {show(each.place)}: {what}; stop its producers, let `lacuna import run` catch up, "
        "and try again"
    )


def _line(name: str, late: int) -> str:
    if late > 0:
        return f"promoted {name}; {late} offsets of the source were not copied"
    return f"promoted {name}: producers and consumers can use it now"


async def reverse_offsets(source: Agents, target: Agents, names: Sequence[str]) -> list[str]:
    """Commit to the source the offsets that groups have committed in the target, and return messages for the user.

    The source lacks the records written to the target since the promotion. A group that has read some of these records
    continues at the end of the source.
    """
    async with Kafka(target, "the target") as here, Kafka(source, "the source") as there:
        topics = await there.topics()
        for name in names:
            if name not in topics:
                raise UserError(
                    f"the source has no topic {name}: name topics that have been copied"
                )
        places = [(name, index) for name in names for index in range(len(topics[name].leaders))]
        ends = await there.offsets(places, LATEST, READ_UNCOMMITTED)
        groups = Groups(here, there, ends.get, is_final=True)
        count = await groups.copy()
        return [
            f"committed {count} offsets at the source",
            *(f"group {group_id} {why}" for group_id, why in groups.left.items()),
        ]
