"""The rules for groups: offsets are committed together with the records of their transactions, and a shared record is
held by only one member at a time.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from lacuna.judge.facts import TRANSACTIONS, Anomaly, Facts, Moment, about, regressions
from lacuna.judge.history import (
    ACCEPT,
    ACQUIRE,
    FAIL,
    OK,
    TXN,
    UNKNOWN,
    Asked,
    Delivery,
    Found,
    Read,
    Settled,
    Take,
    Write,
)

#: A group and a place.
_Key = tuple[str, str]


def _anomaly(kind: str, key: _Key, why: str, *operations: int) -> Anomaly:
    return about(kind, ":".join(key), why, operations)


class _Offsets:
    def __init__(self, facts: Facts) -> None:
        self.takes: defaultdict[_Key, list[tuple[int, Take]]] = defaultdict(list)
        self.found: defaultdict[_Key, list[Moment]] = defaultdict(list)
        for index, each in enumerate(facts.history):
            for take in each.of(Take):
                self.takes[take.group, take.place].append((index, take))
            for found in each.of(Found):
                # An operation that also commits offsets found the old ones before its commit was requested.
                moment = facts.moment(index, found.offset)
                if each.asked >= 0:
                    moment = Moment(moment.start, each.asked, moment.offset, index)
                self.found[found.group, found.place].append(moment)

    def settled(self, facts: Facts, key: _Key) -> list[Moment]:
        """Return the offsets that were found after all commits for the group had ended."""
        end = max((facts.history[index].end for index, _ in self.takes[key]), default=0.0)
        return [moment for moment in self.found[key] if moment.start >= end]


def offsets_back(facts: Facts) -> Iterator[Anomaly]:
    """Committed offsets that were lost, or later found to be lower."""
    offsets = _Offsets(facts)
    for key, found in offsets.found.items():
        taken = [
            facts.moment(index, take.offset)
            for index, take in offsets.takes[key]
            if facts.history[index].outcome == OK
        ]
        for old, new in regressions(taken, found):
            why = f"offset {old.offset} was committed, but offset {new.offset} was found later"
            yield _anomaly("lost offset", key, why, old.index, new.index)
        for old, new in regressions(found, found):
            why = f"offset {old.offset} was found, but only offset {new.offset} was found later"
            yield _anomaly("offset back", key, why, old.index, new.index)


def wrong_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Offsets that were never committed, that were aborted, or that were found before any client had requested the
    commit.
    """
    offsets = _Offsets(facts)
    for key, found in offsets.found.items():
        takes: defaultdict[int, list[int]] = defaultdict(list)
        for index, take in offsets.takes[key]:
            takes[take.offset].append(index)
        for moment in found:
            if not moment.offset:
                continue
            possible = takes[moment.offset]
            if not possible:
                why = f"offset {moment.offset} was found, but had never been committed"
                yield _anomaly("phantom offset", key, why, moment.index)
            elif all(map(facts.has_failed, possible)):
                why = f"offset {moment.offset} was found, but its transaction was aborted"
                yield _anomaly("aborted offset", key, why, *possible, moment.index)
            elif all(
                facts.has_failed(index) or moment.end < facts.history[index].asked
                for index in possible
            ):
                why = f"offset {moment.offset} was found before its commit was requested"
                yield _anomaly("uncommitted offset", key, why, *possible, moment.index)


def torn_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Transactions of unknown outcome whose records are visible but whose offsets are not, or vice versa."""
    offsets = _Offsets(facts)
    for key, takes in offsets.takes.items():
        settled = offsets.settled(facts, key)
        visible = {take.offset for index, take in takes if facts.is_visible(index)}
        for index, take in takes:
            each = facts.history[index]
            writes = list(each.of(Write))
            if each.outcome != UNKNOWN or each.kind not in TRANSACTIONS or not writes:
                continue
            seen = next((write for write in writes if write.value in facts.seen), None)
            for moment in settled:
                if seen and moment.offset < take.offset:
                    why = f"{seen.value} is visible, but offset {take.offset} of its transaction is not"
                    operations = [index, facts.seen[seen.value].index, moment.index]
                    yield about("torn transaction", seen.value, why, operations, ":".join(key))
                passed = [facts.passing(write) for write in writes]
                is_alone = not seen and moment.offset == take.offset not in visible
                if is_alone and passed[0] is not None:
                    why = f"offset {take.offset} is committed, but the records of its transaction are not visible"
                    operations = [index, passed[0], moment.index]
                    value = writes[0].value
                    yield about("torn transaction", value, why, operations, ":".join(key))


def processing(facts: Facts) -> Iterator[Anomaly]:
    """Records that an exactly-once loop processed twice or skipped."""
    ranges: defaultdict[_Key, list[tuple[int, int, int]]] = defaultdict(list)
    for index, each in enumerate(facts.history):
        if each.kind != TXN or each.outcome == FAIL or not facts.is_visible(index):
            continue
        firsts = {read.place: read.first for read in each.of(Read)}
        for take in each.of(Take):
            if take.place in firsts:
                row = (firsts[take.place], take.offset, index)
                ranges[take.group, take.place].append(row)
    for key, rows in ranges.items():
        rows.sort()
        place = key[1]
        for (_, end, one), (first, _, two) in pairwise([(0, 0, rows[0][2]), *rows]):
            kind, why = "processed twice", "two committed transactions of the group consumed it"
            wrong = facts.between(place, first, end)
            if not wrong:
                kind, why = "skipped input", "the group's committed transactions skipped it"
                wrong = facts.between(place, end, first)
            if wrong:
                value = facts.truth[place][wrong[0]]
                operations = [one, two, facts.seen[value].index]
                yield about(kind, value, why, operations, ":".join(key), place)


#: A share group, a place and an offset.
_Record = tuple[str, str, int]


class _Share:
    """The deliveries of each record to each share group, and what the members did with it."""

    def __init__(self, facts: Facts) -> None:
        self.deliveries: defaultdict[_Record, list[tuple[int, Delivery]]] = defaultdict(list)
        self.settled: defaultdict[_Record, list[tuple[int, Settled]]] = defaultdict(list)
        for index, each in enumerate(facts.history):
            for delivery in each.of(Delivery):
                key = (delivery.group, delivery.place, delivery.offset)
                self.deliveries[key].append((index, delivery))
            for part in each.of(Settled):
                self.settled[part.group, part.place, part.offset].append((index, part))


def deliveries(facts: Facts) -> Iterator[Anomaly]:
    """Records that were delivered after they had been accepted, or while another member held them."""
    share = _Share(facts)
    history = facts.history
    for key, rows in share.deliveries.items():
        accepted = [
            index
            for index, part in share.settled[key]
            if part.how == ACCEPT and history[index].outcome == OK
        ]
        record = f"{key[1]}@{key[2]}"
        for index, delivery in rows:
            before = [each for each in accepted if history[each].end < history[index].start]
            if before:
                why = f"{delivery.group} delivered it again after it had been accepted"
                yield about("delivered again", delivery.value, why, [before[0], index], record)
        for one, first in rows:
            until = _held_until(facts, share.settled[key], one, first)
            for two, second in rows:
                if history[one].end < history[two].start and history[two].end < until:
                    why = f"{second.group} delivered it while another member held it"
                    operations = [one, two, *(index for index, _ in share.settled[key])]
                    yield about("delivered twice", second.value, why, operations, record)


def _held_until(
    facts: Facts, settled: list[tuple[int, Settled]], index: int, delivery: Delivery
) -> float:
    """Return the time until which a member certainly held a record, or 0 if that is not known.

    A restarted broker forgets its locks, so a lock certainly existed only if the broker accepted the member's next
    acknowledgement of the record.
    """
    each = facts.history[index]
    later = [
        other
        for number, _ in settled
        if (other := facts.history[number]).process == each.process and other.start >= each.end
    ]
    first = min(later, key=lambda other: other.start, default=None)
    if first is None or first.outcome != OK:
        return 0.0
    return min(first.start, each.start + delivery.seconds)


def undelivered(facts: Facts) -> Iterator[Anomaly]:
    """Committed records that a share group never delivered, although it had nothing more to deliver."""
    delivered = {part.value for each in facts.history for part in each.of(Delivery)}
    for (group, place), index in _idle(facts).items():
        for value in facts.truth[place].values():
            if value not in delivered and facts.is_written(value):
                why = f"{group} has nothing more to deliver, but has never delivered it"
                operations = [facts.writers[value][0], facts.seen[value].index, index]
                yield about("undelivered", value, why, operations, place)


def _idle(facts: Facts) -> dict[_Key, int]:
    """Return, for each place, the last request that found no records at a time when no earlier lock could still hold
    one.
    """
    busy: dict[_Key, float] = {}
    idle: dict[_Key, int] = {}
    acquiring = [index for index, each in enumerate(facts.history) if each.kind == ACQUIRE]
    seconds = max(
        (part.seconds for index in acquiring for part in facts.history[index].of(Delivery)),
        default=0.0,
    )
    for index in acquiring:
        each = facts.history[index]
        got = {part.place for part in each.of(Delivery)}
        for asked in each.of(Asked):
            key = (asked.group, asked.place)
            if asked.place in got or each.outcome == UNKNOWN:
                busy[key] = max(each.end, busy.get(key, 0.0))
            else:
                idle[key] = index
    return {
        key: index
        for key, index in idle.items()
        if facts.history[index].start > busy.get(key, 0.0) + seconds
    }


GROUP_RULES: Final = (
    offsets_back,
    wrong_offsets,
    torn_offsets,
    processing,
    deliveries,
    undelivered,
)
