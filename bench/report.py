"""Formats results as tables for the terminal, and in Markdown for docs/benchmarks.md."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.bucket_targets import FOLDER, JOURNAL_IN_S3, S3
from bench.figures import OTHERS, Figure, Row, Spread, ratio
from bench.goals import Verdict
from bench.journal_targets import POSTGRESQL, SLOW_BUCKET, SQLITE
from bench.limits import End, ends
from bench.results import Results
from bench.sections import BARE, KAFKA, KAFKA_4_4, KAFKA_FSYNC, LACUNA, LACUNA_GRPC

ORDER = (
    LACUNA,
    LACUNA_GRPC,
    KAFKA,
    KAFKA_FSYNC,
    KAFKA_4_4,
    SQLITE,
    POSTGRESQL,
    SLOW_BUCKET,
    S3,
    FOLDER,
    JOURNAL_IN_S3,
)
RATIOS = (
    (LACUNA, KAFKA),
    (LACUNA, KAFKA_FSYNC),
    (LACUNA, KAFKA_4_4),
    (LACUNA_GRPC, KAFKA),
    (LACUNA, BARE),
    (POSTGRESQL, SQLITE),
    (S3, FOLDER),
)
ENDS_WORDS = 4
BEGIN = "<!-- begin of what `make bench` writes -->"
END = "<!-- end of what `make bench` writes -->"


def number(value: float) -> str:
    """Formats a number, rounded to three significant digits or, from 100 up, to a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread_of(spread: Spread) -> str:
    """Formats the median, followed by the minimum and maximum in brackets unless all are the same."""
    median, least, most = (number(each) for each in (spread.median, spread.least, spread.most))
    return median if least == median == most else f"{median} ({least}–{most})"


def targets_of(rows: Sequence[Row]) -> list[str]:
    """Returns the labels of a section's targets, with Lacuna's first."""
    found = {row.target for row in rows}
    known = [label for label in ORDER if label in found]
    return known + sorted(found - set(known))


def runs_of(rows: Sequence[Row]) -> str:
    """Describes how many runs the figures are based on."""
    runs = {len(row.runs) for row in rows}
    return "one run" if runs == {1} else f"medians (least–most) of {max(runs)} runs"


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Tabulates a section: a heading, then a line per workload and figure, with each target's spread and the ratios."""
    targets = targets_of(rows)
    pairs = [pair for pair in RATIOS if set(pair) <= set(targets)]
    lines = [["work", "", *targets, *(" / ".join(pair) for pair in pairs)]]
    for work in dict.fromkeys(row.work for row in rows):
        by_target = {row.target: row for row in rows if row.work == work}
        spreads = {target: row.spreads() for target, row in by_target.items()}
        figures = dict.fromkeys(figure for each in spreads.values() for figure in each)
        for place, figure in enumerate(figures):
            line = ["" if place else work, figure.name]
            line += [_cell(spreads.get(target, {}), figure) for target in targets]
            line += [_ratio(by_target, *pair, figure) for pair in pairs]
            lines.append(line)
    return lines


def _cell(spreads: dict[Figure, Spread], figure: Figure) -> str:
    return spread_of(spreads[figure]) if figure in spreads else ""


def _ratio(rows: dict[str, Row], target: str, yardstick: str, figure: Figure) -> str:
    if figure == OTHERS or target not in rows or yardstick not in rows:
        return ""
    found = ratio(rows[target], rows[yardstick], figure)
    return "" if found is None else number(found)


def ends_table(found: Sequence[End]) -> list[list[str]]:
    """Tabulates Lacuna's limits: a heading, then a line per limit, whose first ENDS_WORDS columns are text."""
    heading = ["work", "", "bounded by", "how the bound was measured"]
    lines = [[*heading, LACUNA, "limit", f"{LACUNA} / limit"]]
    for each in found:
        limit = each.limit
        numbers = map(number, (each.lacuna, each.value, each.ratio))
        lines.append([limit.work, limit.figure.name, limit.name, limit.how, *numbers])
    return lines


def in_columns(lines: Sequence[Sequence[str]], words: int = 2) -> str:
    """Formats a table for the terminal, in aligned columns, of which the first `words` are text."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def in_markdown(lines: Sequence[Sequence[str]], words: int = 2) -> str:
    """Formats a table in Markdown. The first `words` columns are text."""
    heading, *rest = lines
    rule = ["---"] * words + ["---:"] * (len(heading) - words)
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, rule, *rest])


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yields lines about runs that were repeated, or kept although noisy. Workloads measured together share a line."""
    works: dict[tuple[str, int, int], list[str]] = {}
    for row in rows:
        if row.repeated or row.noisy:
            works.setdefault((row.target, row.repeated, row.noisy), []).append(row.work)
    for (target, repeated, noisy), names in works.items():
        yield f"noise during runs of {target}: {repeated} repeated, {noisy} kept although noisy: {'; '.join(names)}"


def verdict_line(verdict: Verdict) -> str:
    """Formats a verdict: `met` or `MISSED`, the goal, and the measured value."""
    word = "met   " if verdict.is_met else "MISSED"
    noise = " (noise)" if verdict.is_noise else ""
    return f"{word}  {verdict.goal}: {number(verdict.value)}{noise}"


def page_part(results: Results, verdicts: Sequence[Verdict]) -> str:
    """Returns the Markdown that belongs between the markers of docs/benchmarks.md."""
    facts = results.facts
    listed = [*facts["machine"].items(), *facts["targets"].items()]
    parts = ["\n".join(f"- {name}: {value}" for name, value in listed)]
    for section, rows in results.sections.items():
        measured = facts["measured"][section]
        parts += [f"### {section}", f"{measured}, {runs_of(rows)}.", in_markdown(table(rows))]
        if said := list(remarks(rows)):
            parts.append("\n".join(f"- {line}" for line in said))
    if found := ends(results):
        parts += ["### Where it ends", in_markdown(ends_table(found), ENDS_WORDS)]
    if verdicts:
        lines = [["goal", "", "measured"]]
        for verdict in verdicts:
            word = "met" if verdict.is_met else "**missed**"
            word += ", noise" if verdict.is_noise else ""
            lines.append([str(verdict.goal), word, number(verdict.value)])
        parts += ["### Goals", in_markdown(lines)]
    return "\n\n".join(parts)


def rewrite(page: Path, part: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces the text between the markers in `page`. Raises ValueError if they are missing."""
    text = page.read_text()
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(
            f"{page} lacks the lines {begin} and {end}: put them where the table should be"
        )
    page.write_text(f"{before}{begin}\n\n{part}\n\n{end}{after}")
