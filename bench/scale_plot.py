"""Draws the scale chart: for each thing that grows, a panel with the server's cost of a Fetch and a transaction.

Horizontal lines are the goal: what a request does not touch should cost it nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from matplotlib.ticker import FuncFormatter

from bench.figures import Figure
from bench.plot import INK, TITLE, picture
from bench.results import Results
from bench.scale import (
    AGENTS,
    ALL_STEPS,
    AMOUNTS,
    COMMANDS,
    CONNECTIONS,
    EXTENTS,
    FETCH_CPU,
    TOPIC,
    TRANSACTION_CPU,
    WORKERS,
    step_work_of,
    work_of,
)

TARGET = "lacuna"
SERVER = {TRANSACTION_CPU: ("a transaction", "#e0703a"), FETCH_CPU: ("a Fetch", "#1f9e89")}
STEP_COLOURS = dict(zip(COMMANDS, ("#4c72b0", "#e0703a", "#1f9e89", "#8e5aa8"), strict=True))
PANELS = (WORKERS, AGENTS, TOPIC, CONNECTIONS, EXTENTS)
#: Keeps the legend from covering a curve.
ROOM_ABOVE = 5
ROOM_BELOW = 0.4
Curve = list[tuple[int, float]]


def draw(results: Results, path: Path) -> None:
    """Draws the chart. Raises ValueError if rows are missing."""
    amount = AMOUNTS[results.size]
    kinds = [kind for kind in PANELS if len(amount.sizes.get(kind, ())) > 1]
    with picture(path, 6.4) as whole:
        *panels, last = whole.subplots(2, 3).flat
        for axes, kind in zip_longest(panels, kinds):
            axes.set_visible(kind is not None)
            if kind is not None:
                named = partial(work_of, kind)
                curves = {
                    label: (_curve(results, figure, amount.sizes[kind], named), colour)
                    for figure, (label, colour) in SERVER.items()
                }
                _panel(axes, f"Server µs, over {kind}", curves)
        steps = {
            command: (
                _curve(results, ALL_STEPS, amount.extents, partial(step_work_of, command)),
                colour,
            )
            for command, colour in STEP_COLOURS.items()
        }
        _panel(last, "Control plane µs, over extents a partition", steps)


def _curve(
    results: Results, figure: Figure, sizes: tuple[int, ...], name: Callable[[int], str]
) -> Curve:
    curve = []
    for size in sizes:
        spread = results.spread(name(size), TARGET, figure)
        if spread is None:
            raise ValueError("the chart needs the section scale: run that section")
        curve.append((size, spread.median))
    return curve


def _panel(axes: Any, title: str, curves: Mapping[str, tuple[Curve, str]]) -> None:
    for label, (curve, colour) in curves.items():
        axes.plot(*zip(*curve, strict=True), color=colour, marker="o", label=label, clip_on=False)
    axes.set_xscale("log")
    axes.set_yscale("log")
    points = [point for curve, _ in curves.values() for point in curve]
    values = [value for _, value in points]
    axes.set_xticks(sorted({size for size, _ in points}))
    axes.set_ylim(ROOM_BELOW * min(values), ROOM_ABOVE * max(values))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=10, **{**TITLE, "pad": 8})
    axes.legend(loc="upper left", frameon=False, fontsize=8.5, labelcolor=INK, ncols=2)


def _count(value: float) -> str:
    """Formats a tick label, such as 10 or 250 k."""
    return f"{value / 1000:g} k" if value >= 1000 else f"{value:g}"
