"""Draws the chart in the README: what aborted records cost the readers of committed ones.

Both panels have the share of aborted records on the x axis. One shows committed records per second; the other, the
bytes per committed record that are sent over the wire and read from the store. The colours suit both white and black
pages, and the background is transparent.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from bench.aborts import work_of
from bench.figures import KILO_RECORDS, STORE_BYTES, WIRE_BYTES, Figure, Spread
from bench.results import Results
from bench.sections import KAFKA, LACUNA

INK = "#78818b"
COLOURS = {LACUNA: "#1f9e89", KAFKA: "#e0703a"}
NAMES = {LACUNA: "Lacuna", KAFKA: "Apache Kafka"}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "svg.fonttype": "path",
    "svg.hashsalt": "lacuna",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.22,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.4,
    "lines.markersize": 5.5,
    "lines.solid_capstyle": "round",
}
RING = {"marker": "o", "markersize": 9.5, "markerfacecolor": "none", "markeredgewidth": 1.6}
LOOKS: dict[Figure, dict[str, Any]] = {
    WIRE_BYTES: {"linestyle": "-"},
    STORE_BYTES: {"linestyle": "", **RING},
}
WHAT = {WIRE_BYTES: "over the wire", STORE_BYTES: "read from the store"}
ROOM_BELOW = 0.4
TICKS = (0, 10, 25, 50, 75, 90, 99)
TITLE: dict[str, Any] = {"loc": "left", "color": INK, "fontweight": "bold", "pad": 14}
Curve = list[tuple[int, Spread]]


@contextmanager
def picture(path: Path, height: float, h_pad: float = 0.16) -> Iterator[Picture]:
    """Yields a picture, `height` inches high, and saves it in the format of `path`'s suffix."""
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.16, h_pad=h_pad)
        made = Picture(figsize=(11, height), layout=layout)
        yield made
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        made.savefig(path, transparent=True, metadata=metadata, dpi=160)


def draw(results: Results, path: Path) -> None:
    """Draws the chart. Raises ValueError if rows are missing."""
    shares = _shares(results)
    if len(shares) < 3:
        raise ValueError("the chart needs the section aborts: run that section")
    with picture(path, 4.3, h_pad=0.12) as whole:
        rates, moved = whole.subplots(1, 2)
        _draw_rates(rates, results, shares)
        _draw_bytes(moved, results, shares)
        for axes in (rates, moved):
            axes.set_xticks(TICKS)
            axes.minorticks_off()
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
            axes.set_xlabel("aborted records in the log, %", labelpad=6)
            axes.tick_params(length=0)
            axes.spines["left"].set_visible(False)


def _shares(results: Results) -> list[int]:
    return [
        share
        for share in range(100)
        if all(results.row(work_of(share, "none"), target) for target in COLOURS)
    ]


def _curve(results: Results, shares: Sequence[int], target: str, figure: Figure) -> Curve:
    spreads = [(share, results.spread(work_of(share, "none"), target, figure)) for share in shares]
    return [(share, spread) for share, spread in spreads if spread is not None]


def _line(axes: Any, curve: Curve, colour: str, **look: Any) -> None:
    """Draws the medians as a line, and the spread as a shaded area behind it."""
    shares = [share for share, _ in curve]
    least = [spread.least for _, spread in curve]
    most = [spread.most for _, spread in curve]
    axes.fill_between(shares, least, most, color=colour, alpha=0.16, linewidth=0)
    medians = [spread.median for _, spread in curve]
    axes.plot(shares, medians, color=colour, clip_on=False, zorder=3, **look)


def _draw_rates(axes: Any, results: Results, shares: Sequence[int]) -> None:
    for target, colour in COLOURS.items():
        curve = _curve(results, shares, target, KILO_RECORDS)
        _line(axes, curve, colour, marker="o")
        _name(axes, target, curve, below=target == KAFKA, left=target == KAFKA)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f} k" if value else "0")
    )
    axes.set_title("Committed records a second", **TITLE)


def _draw_bytes(axes: Any, results: Results, shares: Sequence[int]) -> None:
    axes.set_yscale("log")
    for target, colour in COLOURS.items():
        for figure, look in LOOKS.items():
            curve = _curve(results, shares, target, figure)
            _line(axes, curve, colour, **look)
        wire = _curve(results, shares, target, WIRE_BYTES)
        _name(axes, target, wire, below=target == LACUNA, left=target == KAFKA)
    axes.set_ylim(bottom=ROOM_BELOW * min(spread.least for _, spread in wire))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
    axes.set_title("Bytes moved for a committed record", **TITLE)
    handles = [
        Line2D([], [], color=INK, **look, label=WHAT[figure]) for figure, look in LOOKS.items()
    ]
    axes.legend(handles=handles, loc="upper left", frameon=False)


def _name(axes: Any, target: str, curve: Curve, *, below: bool = False, left: bool = False) -> None:
    """Labels the middle of a curve with the target's name, above or `below` it, to its right or `left`."""
    share, spread = curve[len(curve) // 2 - 1]
    axes.annotate(
        NAMES[target],
        (share, spread.least if below else spread.most),
        xytext=(-10 if left else 6, -9 if below else 9),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top" if below else "bottom",
        color=COLOURS[target],
        fontweight="bold",
    )


def _bytes(value: float) -> str:
    """Formats a tick label, such as 10 KB."""
    return f"{value / 1000:,g} KB" if value >= 1000 else f"{value:g} B"
