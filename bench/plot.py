"""The picture of the README: what aborted records cost whoever reads only committed ones.

Two panels over the share of aborted records: committed records a second, and the bytes that are moved for one of them,
over the wire and out of the store. Colours are such that they stand out from a white page and from a black one; the
background is left out.
"""

from collections.abc import Sequence
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

INK = "#7d8590"
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
LOOKS = {WIRE_BYTES: "-", STORE_BYTES: (0, (1, 1.6))}
WHAT = {WIRE_BYTES: "over the wire", STORE_BYTES: "out of the store"}
Curve = list[tuple[int, Spread]]


def draw(results: Results, path: Path) -> None:
    """Writes the picture; the suffix of `path` says in which format. Raises ValueError without the curve's rows."""
    shares = _shares(results)
    if len(shares) < 3:
        raise ValueError("the picture needs the section aborts: run it")
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.14)
        picture = Picture(figsize=(11, 4.3), layout=layout)
        rates, moved = picture.subplots(1, 2)
        _draw_rates(rates, results, shares)
        _draw_bytes(moved, results, shares)
        for axes in (rates, moved):
            axes.set_xticks([0, 25, 50, 75, 90, 99])
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
            axes.set_xlabel("aborted records in the log")
            axes.tick_params(length=0)
            axes.spines["left"].set_visible(False)
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        picture.savefig(path, transparent=True, metadata=metadata, dpi=160)


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
    """The medians, and the spread as a veil behind them."""
    shares = [share for share, _ in curve]
    least = [spread.least for _, spread in curve]
    most = [spread.most for _, spread in curve]
    axes.fill_between(shares, least, most, color=colour, alpha=0.16, linewidth=0)
    medians = [spread.median for _, spread in curve]
    axes.plot(shares, medians, color=colour, clip_on=False, **{"marker": "o", **look})


def _draw_rates(axes: Any, results: Results, shares: Sequence[int]) -> None:
    for target, colour in COLOURS.items():
        curve = _curve(results, shares, target, KILO_RECORDS)
        _line(axes, curve, colour)
        _name(axes, NAMES[target], curve, colour)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f} k"))
    axes.set_title("Committed records a second", loc="left", color=INK, fontweight="bold")


def _draw_bytes(axes: Any, results: Results, shares: Sequence[int]) -> None:
    axes.set_yscale("log")
    for target, colour in COLOURS.items():
        for figure, look in LOOKS.items():
            curve = _curve(results, shares, target, figure)
            _line(axes, curve, colour, linestyle=look, marker="o" if look == "-" else "")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
    axes.set_title("Bytes moved for a committed record", loc="left", color=INK, fontweight="bold")
    handles = [
        Line2D([], [], color=INK, linestyle=look, label=WHAT[figure])
        for figure, look in LOOKS.items()
    ]
    axes.legend(handles=handles, loc="upper left", frameon=False)


def _name(axes: Any, name: str, curve: Curve, colour: str) -> None:
    """The target's name above its curve, where there is most room: a quarter of the way."""
    share, spread = curve[len(curve) // 3]
    axes.annotate(
        name,
        (share, spread.most),
        xytext=(6, 9),
        textcoords="offset points",
        color=colour,
        fontweight="bold",
    )


def _bytes(value: float) -> str:
    """1 KB, 10 KB, 100 KB at the ticks."""
    return f"{value / 1000:,g} KB" if value >= 1000 else f"{value:g} B"
