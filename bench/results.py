"""A run's results as JSON: rows by section, and the facts that they depend on."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.figures import Better, Figure, Row, Spread

FORMAT = 1


@dataclass(slots=True)
class Results:
    """A run's results. `facts` are the machine, versions and settings; `size` names the amount of work."""

    size: str
    facts: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, list[Row]] = field(default_factory=dict)

    def row(self, work: str, target: str) -> Row | None:
        for rows in self.sections.values():
            for row in rows:
                if (row.work, row.target) == (work, target):
                    return row
        return None

    def spread(self, work: str, target: str, figure: Figure) -> Spread | None:
        row = self.row(work, target)
        return None if row is None else row.spreads().get(figure)

    def median(self, work: str, target: str, figure: Figure) -> float | None:
        spread = self.spread(work, target, figure)
        return None if spread is None else spread.median

    def save(self, path: Path) -> None:
        """Writes every run as JSON, with the medians for human readers."""
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = {
            figure.name: figure.better.value
            for rows in self.sections.values()
            for row in rows
            for run in row.runs
            for figure in run
        }
        sections = {name: [_row_json(row) for row in rows] for name, rows in self.sections.items()}
        document = {
            "format": FORMAT,
            "size": self.size,
            "facts": self.facts,
            "figures": figures,
            "sections": sections,
        }
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Loads the output of `save`. Returns None if the file is missing or has a different format."""
        if not path.exists():
            return None
        document = json.loads(path.read_text())
        if document.get("format") != FORMAT:
            return None
        figures = {
            name: Figure(name, Better(better)) for name, better in document["figures"].items()
        }
        sections = {
            section: [
                Row(
                    row["work"],
                    row["target"],
                    [{figures[name]: value for name, value in run.items()} for run in row["runs"]],
                    row["repeated"],
                    row["noisy"],
                )
                for row in rows
            ]
            for section, rows in document["sections"].items()
        }
        return cls(document["size"], document["facts"], sections)


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "work": row.work,
        "target": row.target,
        "repeated": row.repeated,
        "noisy": row.noisy,
        "median": {figure.name: _short(spread.median) for figure, spread in row.spreads().items()},
        "runs": [{figure.name: _short(value) for figure, value in run.items()} for run in row.runs],
    }


def _short(value: float) -> float:
    """Rounds to five significant digits, which is more than a benchmark's precision."""
    return float(f"{value:.5g}")
