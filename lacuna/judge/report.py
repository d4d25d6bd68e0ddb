"""Presents a verdict: the smallest history that proves each anomaly, and a page with a timeline for each place.

The page is a single file without scripts. Each timeline has a row for each process, and a bar for each operation on the
place. Bars of operations that prove an anomaly are marked.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from lacuna.judge.checker import VISIBLE_WITHIN, judge
from lacuna.judge.facts import Anomaly
from lacuna.judge.history import (
    FAULT,
    Bound,
    Delivery,
    Found,
    History,
    Operation,
    Part,
    Read,
    Settled,
    Take,
    Write,
)

#: The maximum number of operations in a timeline. Those that show anomalies are drawn first.
_MOST_BARS: Final = 1_500
#: The number of anomalies of each kind that the page explains. The others are only counted.
MOST_SHOWN: Final = 3
_WIDTH: Final = 1100
_LABEL: Final = 190
_ROW: Final = 18
_MOST_TITLE: Final = 600


@dataclass(frozen=True, slots=True)
class Shown:
    anomaly: Anomaly
    history: History


def explained(
    history: History, anomalies: Sequence[Anomaly], visible_within: float = VISIBLE_WITHIN
) -> list[Shown]:
    """Return some anomalies of each kind with the smallest histories that prove them."""
    counts: Counter[str] = Counter()
    shown = []
    for anomaly in anomalies:
        counts[anomaly.kind] += 1
        if counts[anomaly.kind] <= MOST_SHOWN:
            shown.append(Shown(anomaly, smallest(history, anomaly, visible_within)))
    return shown


def smallest(history: History, anomaly: Anomaly, visible_within: float = VISIBLE_WITHIN) -> History:
    """Return the operations that prove an anomaly, reduced to the relevant parts. None of them can be omitted."""

    def shows(candidate: History) -> bool:
        found = judge(candidate, visible_within=visible_within)
        return any(each.key == anomaly.key for each in found)

    whole = [history[index] for index in sorted(anomaly.operations)]
    trimmed = [_trimmed(each, anomaly.focus) for each in whole]
    kept = trimmed if shows(trimmed) else whole
    if shows(kept):
        kept = _without(kept, shows)
        for index in range(len(kept)):
            kept = _with_fewer_parts(kept, index, shows)
    return sorted(kept, key=lambda each: each.start)


def _without(kept: History, shows: Callable[[History], bool]) -> History:
    for each in list(kept):
        fewer = [other for other in kept if other is not each]
        if shows(fewer):
            kept = fewer
    return kept


def _with_fewer_parts(kept: History, index: int, shows: Callable[[History], bool]) -> History:
    for part in kept[index].parts:
        parts = tuple(other for other in kept[index].parts if other is not part)
        fewer = [*kept[:index], replace(kept[index], parts=parts), *kept[index + 1 :]]
        if shows(fewer):
            kept = fewer
    return kept


def _trimmed(each: Operation, focus: frozenset[str]) -> Operation:
    parts = (_part_in(part, focus) for part in each.parts)
    return replace(each, parts=tuple(part for part in parts if part is not None))


def _part_in(part: Part, focus: frozenset[str]) -> Part | None:
    if isinstance(part, Read):
        records = tuple(row for row in part.records if row[1] in focus)
        return replace(part, records=records)
    if isinstance(part, Take | Found):
        return part if f"{part.group}:{part.place}" in focus else None
    if isinstance(part, Write | Delivery):
        return part if part.value in focus else None
    if isinstance(part, Bound):
        return part if part.place in focus else None
    if isinstance(part, Settled):
        return part if f"{part.place}@{part.offset}" in focus else None
    return part


_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2733; --paper: #fff; --soft: #667; --line: #ccd3da; --ok: #3b7dd8;
  --fail: #e0a030; --unknown: #999; --bad: #d02c2c; --fault: #f3d4d4; }
@media (prefers-color-scheme: dark) { :root { --ink: #dde5ec; --paper: #14191f; --soft: #9ab; --line: #38424d;
  --fault: #4a2626; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1140px;
  margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; border-left: 3px solid var(--bad); padding-left: .8rem; font-size: 12px; }
table { border-collapse: collapse; } td, th { padding: .1rem .8rem .1rem 0; text-align: left; }
svg { width: 100%; height: auto; } text { font-size: 11px; fill: var(--soft); }
.ok { fill: var(--ok); } .fail { fill: var(--fail); } .unknown { fill: var(--unknown); } .fault { fill: var(--fault); }
.bad { stroke: var(--bad); stroke-width: 3; } line { stroke: var(--line); }
.verdict { font-size: 1.3rem; font-weight: 600; } summary { cursor: pointer; }
"""


def page(history: History, anomalies: Sequence[Anomaly], shown: Sequence[Shown], title: str) -> str:
    marked = {index for anomaly in anomalies for index in anomaly.operations}
    counts = Counter((each.kind, each.outcome) for each in history)
    rows = "".join(
        f"<tr><td>{kind}</td><td>{outcome}</td><td>{count}</td></tr>"
        for (kind, outcome), count in sorted(counts.items())
    )
    verdict = verdict_of(anomalies)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f'<p class="verdict">{escape(verdict)}</p>'
        + "".join(_section(history, each) for each in shown)
        + "<h2>Timelines</h2><p>Operations are blue if they were committed or answered, amber if they were "
        "aborted or rejected, and grey if their outcome is unknown. Those that prove an anomaly have a red "
        "outline. Faults are drawn behind the bars.</p>"
        + "".join(_timelines(history, marked))
        + f"<h2>Operations</h2><table><tr><th>kind<th>outcome<th>count</tr>{rows}</table></html>\n"
    )


def verdict_of(anomalies: Sequence[Anomaly]) -> str:
    """Return a one-line summary of all anomalies."""
    if not anomalies:
        return "no anomaly"
    counts = Counter(each.kind for each in anomalies)
    return ", ".join(f"{kind}: {count}" for kind, count in counts.most_common())


def _section(history: History, shown: Shown) -> str:
    anomaly = shown.anomaly
    lines = "\n".join(map(str, shown.history))
    places = sorted({place for each in shown.history for place in touched(each)})
    window = (
        min((each.start for each in shown.history), default=0.0),
        max((each.end for each in shown.history), default=0.0),
    )
    marked = set(anomaly.operations)
    drawn = "".join(
        f"<p>{escape(place)}</p>{_timeline(_near(history, place, window), marked)}"
        for place in places[:MOST_SHOWN]
    )
    return (
        f"<h2>{escape(anomaly.kind)}: {escape(anomaly.subject)}</h2><p>{escape(anomaly.why)}.</p>"
        f"<pre>{escape(lines)}</pre>{drawn}"
    )


def touched(each: Operation) -> set[str]:
    return {part.place for part in each.parts}


def _near(history: History, place: str, window: tuple[float, float]) -> list[tuple[int, Operation]]:
    margin = max(0.05, (window[1] - window[0]) / 5)
    return [
        (index, each)
        for index, each in enumerate(history)
        if each.end >= window[0] - margin
        and each.start <= window[1] + margin
        and (each.kind == FAULT or place in touched(each))
    ]


def _timelines(history: History, marked: set[int]) -> Iterable[str]:
    by_place: defaultdict[str, list[tuple[int, Operation]]] = defaultdict(list)
    faults = [(index, each) for index, each in enumerate(history) if each.kind == FAULT]
    for index, each in enumerate(history):
        for place in touched(each):
            by_place[place].append((index, each))
    for place, rows in sorted(by_place.items()):
        drawn = _timeline([*faults, *rows], marked)
        yield f"<details><summary>{escape(place)}: {len(rows)} operations</summary>{drawn}</details>"


def _timeline(rows: Sequence[tuple[int, Operation]], marked: set[int]) -> str:
    if not rows:
        return ""
    rows = sorted(rows, key=lambda row: row[0] not in marked)[:_MOST_BARS]
    begin = min(each.start for _, each in rows)
    span = max(max(each.end for _, each in rows) - begin, 1e-6)
    scale = (_WIDTH - _LABEL) / span
    processes = sorted({each.process for _, each in rows if each.kind != FAULT})
    height = _ROW * (len(processes) + 2)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">']
    for index, each in sorted(rows, key=lambda row: row[1].kind != FAULT):
        x = _LABEL + (each.start - begin) * scale
        width = max((each.end - each.start) * scale, 2)
        title = f"<title>{escape(str(each)[:_MOST_TITLE])}</title>"
        if each.kind == FAULT:
            parts.append(
                f'<rect class="fault" x="{x:.1f}" y="0" width="{max(width, 3):.1f}" height="{height}">{title}</rect>'
            )
            continue
        y = _ROW * processes.index(each.process) + 3
        bad = " bad" if index in marked else ""
        parts.append(
            f'<rect class="{each.outcome}{bad}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 6}">{title}'
            "</rect>"
        )
    for number, process in enumerate(processes):
        parts.append(f'<text x="0" y="{_ROW * number + 13}">{escape(process)}</text>')
    base = _ROW * len(processes) + 6
    parts.append(f'<line x1="{_LABEL}" y1="{base}" x2="{_WIDTH}" y2="{base}"/>')
    for step in range(5):
        x = _LABEL + (_WIDTH - _LABEL - 40) * step / 4
        parts.append(f'<text x="{x:.0f}" y="{base + 15}">{begin + span * step / 4:.3f} s</text>')
    return "".join([*parts, "</svg>"])
