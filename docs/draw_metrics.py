"""Writes the tables of docs/metrics.md from the rows of the metrics: `python docs/draw_metrics.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lacuna.observing import agent, control
from lacuna.observing.metric import Metric

PAGE: Final = Path(__file__).with_name("metrics.md")
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The whole page with its tables made anew."""
    made = {
        "agent": "\n".join(_table(agent.METRICS)),
        "controlplane": "\n".join(_table(control.METRICS)),
    }
    return _SECTION.sub(
        lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", PAGE.read_text(encoding="utf-8")
    )


def _table(metrics: Iterable[Metric[Any]]) -> Iterator[str]:
    yield "| name | type | labels | meaning |"
    yield "|---|---|---|---|"
    for metric in sorted(metrics, key=lambda metric: metric.name):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.shown_name}` | {metric.type} | {labels} | {metric.help_text} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
