"""Finds the anomalies in a history. The checker is deterministic: the same history always yields the same anomalies.

Each rule holds for Kafka under any faults and timing, for reasons given in docs/judge.md. Whether an operation with an
unknown outcome took effect is inferred from what readers saw.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from lacuna.judge.cycles import cycles
from lacuna.judge.facts import TRANSACTIONS, Anomaly, Facts, Moment, about, regressions
from lacuna.judge.groups import GROUP_RULES
from lacuna.judge.history import (
    DAMAGED,
    DIRTY,
    FAIL,
    FAULT,
    HW,
    INIT,
    LSO,
    OK,
    SEND,
    STUCK,
    ZOMBIE,
    Bound,
    History,
    Operation,
    Read,
    Write,
)

#: The number of anomalies of a kind after which further ones are only counted.
MOST_OF_A_KIND: Final = 100
#: The number of seconds without a fault for which a committed record may stay invisible.
VISIBLE_WITHIN: Final = 30.0


def judge(history: History, *, visible_within: float = VISIBLE_WITHIN) -> list[Anomaly]:
    """Return the anomalies in a history, at most MOST_OF_A_KIND of each kind."""
    facts = Facts(history)
    found: dict[tuple[str, str], Anomaly] = {}
    counts: Counter[str] = Counter()
    by_rule = (rule(facts) for rule in RULES)
    for anomaly in chain(*by_rule, late_visibility(facts, visible_within)):
        if anomaly.key not in found and counts[anomaly.kind] < MOST_OF_A_KIND:
            found[anomaly.key] = anomaly
            counts[anomaly.kind] += 1
    return list(found.values())


def wrong_reads(facts: Facts) -> Iterator[Anomaly]:
    """Values that no reader may see, because they were aborted, rejected or never written."""
    for value, sight in facts.glimpsed.items():
        writer = facts.writers.get(value)
        if writer is None:
            yield about("phantom", value, "it was read, but not written", [sight.index])
            continue
        index, write = writer
        if write.place != sight.place:
            why = f"it was written to {write.place} and read in {sight.place}"
            yield about("misplaced", value, why, [index, sight.index])
        if not facts.has_failed(index):
            continue
        kind = facts.history[index].kind
        if kind in TRANSACTIONS and (committed := facts.seen.get(value)):
            why = "its transaction was aborted, but read_committed returned it"
            yield about("aborted read", value, why, [index, committed.index])
        elif kind in (SEND, ZOMBIE):
            why = "the broker rejected it, but readers found it"
            yield about("rejected write", value, why, [index, sight.index])


def early_reads(facts: Facts) -> Iterator[Anomaly]:
    """Records that read_committed returned before any client had requested their commit."""
    for value, sight in facts.seen.items():
        writer = facts.writers.get(value)
        if writer is None:
            continue
        each, reader = facts.history[writer[0]], facts.history[sight.index]
        if each.kind in TRANSACTIONS and each.outcome != FAIL and reader.end < each.asked:
            why = "read_committed returned it before its commit was requested"
            yield about("uncommitted read", value, why, [writer[0], sight.index])


def lost_writes(facts: Facts) -> Iterator[Anomaly]:
    """Committed writes that readers passed without seeing them, and transactions that they saw only in part."""
    for index in facts.writing():
        each = facts.history[index]
        if each.outcome == FAIL:
            continue
        writes = list(each.of(Write))
        seen = [write for write in writes if write.value in facts.seen]
        missing = [(write, facts.passing(write)) for write in writes if write not in seen]
        passed = [(write, reader) for write, reader in missing if reader is not None]
        if not passed:
            continue
        if seen and each.kind in TRANSACTIONS:
            yield _torn(facts, index, seen[0], passed)
        elif each.outcome == OK:
            for write, reader in passed:
                why = (
                    f"it was acknowledged in {write.place}, but readers passed it without seeing it"
                )
                yield about("lost write", write.value, why, [index, reader])


def _torn(facts: Facts, index: int, seen: Write, passed: Sequence[tuple[Write, int]]) -> Anomaly:
    write, reader = passed[0]
    sight = facts.seen[seen.value]
    why = f"readers saw {seen.value} of the transaction, but passed {write.value} without seeing it"
    return about("torn transaction", write.value, why, [index, sight.index, reader], seen.value)


def missed_reads(facts: Facts) -> Iterator[Anomaly]:
    """Records that one reader saw, but another reader passed without seeing."""
    for index, read in facts.reading():
        expected = facts.between(read.place, read.first, read.end)
        found = {offset for offset, _ in read.records}
        if found.issuperset(expected):
            continue
        offset = next(each for each in expected if each not in found)
        value = facts.truth[read.place][offset]
        why = (
            f"one reader saw it at offset {offset} of {read.place}, but another passed that offset "
            "without seeing it"
        )
        yield about("missed read", value, why, [facts.seen[value].index, index])


def repeated_records(facts: Facts) -> Iterator[Anomaly]:
    """Values at two offsets, offsets with two values, and reads that return records twice or out of order."""
    for value, places in facts.places.items():
        if len(places) > 1:
            where = " and ".join(f"{place}@{offset}" for place, offset in sorted(places)[:2])
            indexes = [facts.contents[each][value] for each in sorted(places)[:2]]
            writer = [facts.writers[value][0]] if value in facts.writers else []
            yield about("doubled write", value, f"it is at {where}", [*writer, *indexes])
    for (place, offset), found in facts.contents.items():
        if len(found) > 1:
            one, two = list(found)[:2]
            why = f"readers found {one} and {two} at offset {offset} of {place}"
            yield about("divergent offset", f"{place}@{offset}", why, [*found.values()], one, two)
    for index, read in facts.reading():
        for (before, _), (offset, value) in pairwise(read.records):
            if offset <= before:
                why = f"one response contains offset {offset} of {read.place} after offset {before}"
                yield about("disordered read", value, why, [index])


def false_acknowledgements(facts: Facts) -> Iterator[Anomaly]:
    """Offsets that were acknowledged for one record, but belong to another."""
    holders: dict[tuple[str, int], str] = {}
    for index in facts.writing():
        for write in facts.history[index].of(Write):
            if write.offset is None:
                continue
            where = (write.place, write.offset)
            other = holders.setdefault(where, write.value)
            if other != write.value:
                why = f"offset {write.offset} of {write.place} was also acknowledged for {other}"
                operations = [facts.writers[other][0], index]
                yield about("divergent offset", write.value, why, operations, other)
            sight = facts.glimpsed.get(write.value)
            if sight is not None and sight.place == write.place and sight.offset != write.offset:
                why = (
                    f"it was acknowledged at offset {write.offset} of {write.place}, but is stored "
                    f"at offset {sight.offset}"
                )
                yield about("misplaced", write.value, why, [index, sight.index])


def disorder(facts: Facts) -> Iterator[Anomaly]:
    """Writes that are stored out of their producer's order, or before a write that was acknowledged before they were
    sent.
    """
    firm: defaultdict[str, list[Moment]] = defaultdict(list)
    later: defaultdict[str, list[Moment]] = defaultdict(list)
    lines: defaultdict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
    values: dict[tuple[int, str, int], str] = {}
    for index in sorted(facts.writing(), key=lambda index: facts.history[index].start):
        each = facts.history[index]
        for write in each.of(Write):
            offset = facts.offset_of(write)
            if offset is None:
                continue
            moment = facts.moment(index, offset)
            values[index, write.place, offset] = write.value
            later[write.place].append(moment)
            if write.offset is not None:
                firm[write.place].append(moment)
            lines[each.session, write.place].append((index, offset, write.value))
    for (session, place), line in lines.items():
        for (one, before, first), (two, after, second) in pairwise(line):
            if session and after < before:
                why = f"{session} sent it after {first}, but it is stored before {first} in {place}"
                yield about("producer order", second, why, [one, two], first)
    for place, moments in firm.items():
        for old, new in regressions(moments, later[place]):
            first = values[old.index, place, old.offset]
            second = values[new.index, place, new.offset]
            why = f"it was sent after {first} had been acknowledged, but is stored before {first} in {place}"
            yield about("real-time order", second, why, [old.index, new.index], first)


def bounds_back(facts: Facts) -> Iterator[Anomaly]:
    """Last stable offsets, high watermarks and log starts that moved backward, or were behind what readers had seen."""
    found: defaultdict[tuple[str, str], list[Moment]] = defaultdict(list)
    for index, each in enumerate(facts.history):
        for bound in each.of(Bound):
            found[bound.place, bound.what].append(facts.moment(index, bound.offset))
    for (place, what), moments in found.items():
        for old, new in regressions(moments, moments):
            yield _bound(f"{what} back", place, what, "it had been", old, new)
    for what, is_committed in ((LSO, True), (HW, False)):
        for place, moments in _read_ends(facts, is_committed=is_committed).items():
            for old, new in regressions(moments, found[place, what]):
                yield _bound(f"read past the {what}", place, what, "readers had reached", old, new)
    for place in [place for place, what in found if what == LSO]:
        for old, new in regressions(found[place, LSO], found[place, HW]):
            yield _bound("lso past the hw", place, HW, "the lso had been", old, new)


def _read_ends(facts: Facts, *, is_committed: bool) -> dict[str, list[Moment]]:
    ends: defaultdict[str, list[Moment]] = defaultdict(list)
    for index, read in facts.reading():
        if read.records and (facts.history[index].kind != DIRTY) == is_committed:
            ends[read.place].append(facts.moment(index, read.records[-1][0] + 1))
    return ends


def _bound(kind: str, place: str, what: str, was: str, old: Moment, new: Moment) -> Anomaly:
    why = f"the {what} of {place} was {new.offset} after {was} {old.offset}"
    return about(kind, place, why, [old.index, new.index])


def early_stability(facts: Facts) -> Iterator[Anomaly]:
    """Last stable offsets that passed a record of a transaction before any client had asked to end it."""
    stable: defaultdict[str, list[Moment]] = defaultdict(list)
    written: defaultdict[str, list[Moment]] = defaultdict(list)
    for index, each in enumerate(facts.history):
        for bound in each.of(Bound):
            if bound.what == LSO:
                stable[bound.place].append(facts.moment(index, bound.offset))
        if each.kind in TRANSACTIONS and each.outcome == OK:
            for write in each.of(Write):
                if write.offset is not None:
                    moment = Moment(each.asked, each.asked, write.offset, index)
                    written[write.place].append(moment)
    for place, moments in written.items():
        for old, new in regressions(stable[place], moments):
            why = (
                f"the lso of {place} was {old.offset} while a transaction with a record at offset "
                f"{new.offset} was open"
            )
            values = [write.value for write in facts.history[new.index].of(Write)]
            operations = [old.index, new.index]
            yield about("lso past an open transaction", place, why, operations, *values)


def late_visibility(facts: Facts, within: float) -> Iterator[Anomaly]:
    """Committed records that stayed above the last stable offset for more than `within` seconds."""
    faults = [each.end for each in facts.history if each.kind == FAULT]
    newest: dict[str, tuple[float, int, int]] = {}
    for index, each in enumerate(facts.history):
        for bound in each.of(Bound):
            if bound.what == LSO and each.start >= newest.get(bound.place, (0.0, 0, 0))[0]:
                newest[bound.place] = (each.start, bound.offset, index)
    for index in facts.writing(OK):
        each = facts.history[index]
        for write in each.of(Write):
            start, offset, other = newest.get(write.place, (0.0, 0, 0))
            quiet = max([each.end, *(fault for fault in faults if fault < start)])
            if write.offset is not None and offset <= write.offset and start - quiet > within:
                why = f"{start - quiet:.0f} s after it was committed, the lso of {write.place} was only {offset}"
                yield about("late visibility", write.value, why, [index, other], write.place)


def fences(facts: Facts) -> Iterator[Anomaly]:
    """Actions of a producer after a newer one with its transactional id had been initialized."""
    begun: defaultdict[str, list[tuple[int, float, int]]] = defaultdict(list)
    for index, each in enumerate(facts.history):
        if each.kind == INIT and each.outcome == OK:
            begun[each.identity].append((each.generation, each.end, index))
    for index, each in enumerate(facts.history):
        if each.kind not in (*TRANSACTIONS, ZOMBIE) or each.outcome != OK:
            continue
        acted = _acted(each)
        newer = [
            other
            for generation, end, other in begun[each.identity]
            if generation > each.generation and end < acted
        ]
        if newer:
            by = facts.history[newer[0]].session
            why = f"{each.session} continued after {by} had fenced it"
            values = [write.value for write in each.of(Write)]
            yield about("not fenced", each.session, why, [newer[0], index], by, *values)


def _acted(each: Operation) -> float:
    return each.asked if each.kind in TRANSACTIONS and each.asked >= 0 else each.start


def unreadable(facts: Facts) -> Iterator[Anomaly]:
    """Batches that are truncated or have a wrong checksum, and positions that readers never get past."""
    for index, each in enumerate(facts.history):
        for read in each.of(Read) if each.kind == STUCK else ():
            why = f"readers cannot get past offset {read.first}, although the log continues"
            yield about("stuck reader", read.place, why, [index])
        if each.kind == DAMAGED:
            why = "it received a record batch that is truncated or has a wrong checksum"
            yield Anomaly("damaged batch", each.process, why, (index,), frozenset())


Rule = Callable[[Facts], Iterator[Anomaly]]
RULES: Final[tuple[Rule, ...]] = (
    wrong_reads,
    early_reads,
    lost_writes,
    missed_reads,
    repeated_records,
    false_acknowledgements,
    disorder,
    bounds_back,
    early_stability,
    fences,
    unreadable,
    *GROUP_RULES,
    cycles,
)
