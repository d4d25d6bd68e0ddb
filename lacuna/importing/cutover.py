"""How far copies are, and the step by which they become topics of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lacuna.base.errors import UserError
from lacuna.importing.cluster import (
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClusterFailed,
    Kafka,
    Place,
    TopicThere,
)
from lacuna.importing.groups import Groups
from lacuna.importing.topics import links_of, promote
from lacuna.operating.kafka import Agents


@dataclass(frozen=True, slots=True)
class Standing:
    """A mirrored partition: the end of the copy, and the source's last stable offset and high watermark."""

    place: Place
    copied: int
    stable_offset: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """How many offsets are decided at the source and not here."""
        return max(0, self.stable_offset - self.copied)

    @property
    def undecided(self) -> int:
        """How many offsets the source has not decided."""
        return self.high_watermark - self.stable_offset


async def mirrors_of(source: Kafka, target: Kafka) -> dict[str, TopicThere]:
    """Return the topics of the source that have a mirror in the target, by name."""
    there = await source.topics()
    links = await links_of(target)
    return {
        name: topic
        for name, topic in sorted(there.items())
        if links.get(name) == f"{source.cluster_id}/{topic.topic_id or name}"
    }


async def standings(
    source: Kafka, target: Kafka, names: Sequence[str] | None = None
) -> list[Standing]:
    """Return the standing of each partition of mirrors, by default of all."""
    mirrors = await mirrors_of(source, target)
    places = [
        (name, index)
        for name, topic in mirrors.items()
        if names is None or name in names
        for index in range(len(topic.leaders))
    ]
    # The source last: what it decides meanwhile is lag.
    copied = await target.offsets(places, LATEST, READ_UNCOMMITTED)
    stable = await source.offsets(places, LATEST, READ_COMMITTED)
    ends = await source.offsets(places, LATEST, READ_UNCOMMITTED)
    return [
        Standing(place, copied.get(place, 0), stable[place], ends[place])
        for place in places
        if place in stable and place in ends
    ]


async def cut_over(
    source: Agents, target: Agents, names: Sequence[str], *, is_all: bool, is_forced: bool
) -> list[str]:
    """Promote mirrors, and return a line for each.

    Raises UserError, and promotes nothing, if one of them is no mirror, or is not complete and `is_forced` is not set.
    """
    async with Kafka(target, "the target") as here:
        links = await links_of(here)
        chosen = sorted(links) if is_all else list(dict.fromkeys(names))
        _check_names(chosen, links, is_all=is_all)
        try:
            async with Kafka(source, "the source") as there:
                if is_all:
                    ours = await mirrors_of(there, here)
                    chosen = [name for name in chosen if name in ours]
                return await _promote_at_end(there, here, chosen, is_forced=is_forced)
        except ClusterFailed as error:
            if not is_forced:
                raise UserError(
                    f"{error}; if the source is gone for good, promote with --force"
                ) from error
            await promote(here, chosen)
            return [f"promoted {name}, without a look at the source" for name in chosen]


def _check_names(chosen: Sequence[str], links: Mapping[str, str], *, is_all: bool) -> None:
    if not chosen:
        reason = "there is no mirror" if is_all else "no topic is named: name some, or add --all"
        raise UserError(f"nothing is promoted: {reason}")
    for name in chosen:
        if name not in links:
            raise UserError(
                f"{name} is no mirror here, so there is nothing to promote: `lacuna import status` lists the mirrors"
            )


async def _promote_at_end(
    source: Kafka, target: Kafka, names: Sequence[str], *, is_forced: bool
) -> list[str]:
    before = {each.place: each for each in await standings(source, target, names)}
    for (name, index), each in before.items():
        if is_forced or not (each.lag or each.undecided):
            continue
        what = (
            f"{each.lag} offsets are not copied yet"
            if each.lag
            else f"{each.undecided} offsets are open at the source, in or behind an open transaction"
        )
        raise UserError(
            f"nothing is promoted: {name}[{index}]: {what}; stop its producers, let `lacuna import run` catch up, "
            "and try again"
        )
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


def _line(name: str, late: int) -> str:
    if late > 0:
        return f"promoted {name}; {late} offsets that the source has are not here"
    return f"promoted {name}: producers and consumers may use it"
