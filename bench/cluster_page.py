"""Turns the figures from bench/cluster.py into the tables and the chart of docs/scale.md."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.ticker import FuncFormatter

from bench.costs import load_prices
from bench.figures import GIBIBYTE
from bench.fleet import (
    ABORTED_SHARE,
    BATCH_BYTES,
    CONSUMER_GROUPS,
    GROUP,
    TRANSACTION_MS,
    Load,
)
from bench.fleet_housekeeping import BYTES_A_MS, COMPACTION_MS, GET_MS, PUT_MS, TASKS
from bench.plot import INK, TITLE, picture
from bench.report import in_markdown, number, rewrite
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.logstore.objects.prices import GET, PUT
from lacuna.logstore.objects.s3 import READS_AT_ONCE

#: Figures by name; rates are per second of the fleet's time.
Row = Mapping[str, Any]
DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "scale.md"
PICTURE: Final = DOCS / "cluster.svg"
BEGIN: Final = "<!-- begin of what `python -m bench.cluster` writes -->"
END: Final = "<!-- end of what `python -m bench.cluster` writes -->"
MEBIBYTE: Final = 1 << 20
MEGABYTE: Final = 1_000_000
DAY_SECONDS: Final = 86_400
MONTH_SECONDS: Final = 30 * DAY_SECONDS
#: Published figures, in dollars a month: AutoMQ's own claim at 1 GiB/s, and Inkless's yearly figure with 3 GiB/s out.
AUTOMQ_MONTH: Final = 12_900
INKLESS_MONTH: Final = 288_000 / 12
#: If less than this share of the extents is rewritten, the page says that merging falls behind.
MUCH: Final = 0.9
COLOURS: Final = ("#e0703a", "#1f9e89", "#4c72b0")


def load_of(row: Row) -> Load:
    return Load(**row["load"])


def full_at(row: Row) -> float:
    """Returns the throughput in GiB/s that saturates one control plane: the only thread of its event loop uses a whole
    core.
    """
    return float(load_of(row).gibibytes / row["loop cpu"])


def puts(row: Row) -> float:
    """Returns the PUTs per second from flushes, merging and compaction."""
    return float(row["flushes"] + row["merging, puts"] + row["compaction, puts"])


def gets(row: Row) -> float:
    """Returns the GETs per second from consumers, merging and compaction."""
    return float(row["gets for consumers"] + row["merging, gets"] + row["compaction, gets"])


def dollars(row: Row) -> float:
    """Returns the monthly cost of requests in dollars."""
    a_second = load_prices().of(Counter({PUT: 1})) * puts(row)
    return (a_second + load_prices().of(Counter({GET: 1})) * gets(row)) * MONTH_SECONDS


def rewritten(row: Row) -> float:
    """Returns the extents replaced by merging and compaction, as a share of those that arrived in the same time."""
    before = row["merging, extents_before"] + row["compaction, extents_before"]
    return float(before / row["slices"])


def line(row: Row) -> str:
    """Formats a row for the terminal."""
    load = load_of(row)
    return (
        f"{load.gibibytes:g} GiB/s, {load.agents} agents, {load.partitions:,} partitions, {load.zones} zones, "
        f"{load.interval_ms} ms: {number(row['cpu'])} cores, full at {number(full_at(row))} GiB/s, "
        f"{number(row['memory'] / MEBIBYTE)} MiB, {row['extents']:,} extents, "
        f"journal {number(_an_inflow(row, 'journal bytes') / MEGABYTE)} MB/GiB, "
        f"views {number(row['view bytes'] / MEGABYTE)} MB/s, {number(puts(row))} PUTs/s, "
        f"{number(gets(row))} GETs/s, {number(dollars(row))} $/month"
    )


def _an_inflow(row: Row, name: str) -> float:
    """Converts a rate to an amount per GiB of incoming data."""
    return float(row[name] / load_of(row).gibibytes)


Column = tuple[str, Callable[[Row], str]]
LOAD: Final[tuple[Column, ...]] = (
    ("partitions", lambda row: f"{load_of(row).partitions:,}"),
    ("flush, ms", lambda row: f"{load_of(row).interval_ms:,}"),
)
PLANE: Final[tuple[Column, ...]] = (
    ("slices/s", lambda row: number(row["slices"])),
    ("cores", lambda row: number(row["cpu"])),
    ("of these, event loop", lambda row: number(row["loop cpu"])),
    ("full at GiB/s", lambda row: number(full_at(row))),
    ("snapshots, cores", lambda row: number(row["snapshot cpu"])),
    ("snapshots, MiB", lambda row: number(row["snapshot memory"] / MEBIBYTE)),
    ("memory, MiB", lambda row: number(row["memory"] / MEBIBYTE)),
    ("extents live", lambda row: f"{row['extents']:,}"),
    ("journal, MB/GiB", lambda row: number(_an_inflow(row, "journal bytes") / MEGABYTE)),
    ("views, MB/s", lambda row: number(row["view bytes"] / MEGABYTE)),
    ("driven, s", lambda row: f"{row['seconds']:g}"),
    ("merged after, s", lambda row: f"{row['min_age_ms'] / 1000:g}"),
)
REQUESTS: Final[tuple[Column, ...]] = (
    ("PUTs/s", lambda row: number(puts(row))),
    ("GETs/s, consumers", lambda row: number(row["gets for consumers"])),
    ("GETs/s, merging", lambda row: number(row["merging, gets"])),
    ("GETs/s, compaction", lambda row: number(row["compaction, gets"])),
    ("extents rewritten, %", lambda row: number(100 * rewritten(row))),
    ("$/month", lambda row: number(dollars(row))),
)
LIFTED: Final[tuple[Column, ...]] = (
    ("slices/s", lambda row: number(row["slices"])),
    ("cores of one control plane", lambda row: number(row["cpu"])),
    ("control planes", lambda row: str(clusters_of(row))),
    ("all full at GiB/s", lambda row: number(full_at(row) * clusters_of(row))),
    ("memory of one, MiB", lambda row: number(row["memory"] / MEBIBYTE)),
    ("PUTs/s in all", lambda row: number(puts(row) * clusters_of(row))),
    ("GETs/s in all", lambda row: number(gets(row) * clusters_of(row))),
    ("$/month in all", lambda row: number(dollars(row) * clusters_of(row))),
)


def clusters_of(row: Row) -> int:
    """Returns the number of clusters of this size that are needed for 1 GiB/s, at least one."""
    return max(1, round(1 / load_of(row).gibibytes))


def name_of(row: Row) -> str:
    """Describes what distinguishes a row."""
    load = load_of(row)
    placed = {1: "each partition on one agent", 3: "one agent per zone, 3 zones"}.get(
        load.zones, f"every partition on every agent ({load.zones})"
    )
    fleet = ""
    if clusters_of(row) > 1:
        fleet = f"{clusters_of(row)} clusters, {load.agents} agents and {load.partitions:,} partitions each; "
    elif load.gibibytes != 1:
        fleet = f"{load.gibibytes:g} GiB/s, {load.agents} agents, {load.partitions:,} partitions; "
    return f"{fleet}{placed}; {load.interval_ms:,} ms"


def lifted(results: Row) -> list[Row]:
    """Returns the rows for placements that raise the limit and, for comparison, those for a fleet of the same size."""
    rows: dict[str, list[Row]] = results["rows"]
    size = load_of(rows["lifts"][0]).partitions
    same = [row for row in rows["fleet"] if load_of(row).partitions == size]
    first, *others = rows["lifts"]
    return [first, *(row for row in same if load_of(row).interval_ms >= 250), *others]


def page_part(results: Row) -> str:
    """Returns the Markdown that belongs between the markers of docs/scale.md."""
    fleet = results["rows"]["fleet"]
    facts = results["machine"]
    measured = (
        f"Measured {results['started']} on {facts['processor']}, {facts['memory']}; the machine's load average over 15 "
        f"minutes was {number(results['load average'])} at the end."
    )
    about = [measured, *_in_short(results), _the_fleet(), _model()]
    names = [("placement", name_of)]
    return "\n\n".join(
        (
            "\n".join(f"- {each}" for each in about),
            "![CPU and cost by number of partitions, and placements that raise the limit](cluster.svg)",
            "### The control plane",
            in_markdown(_table([*LOAD, *PLANE], fleet)),
            "### Requests and dollars",
            in_markdown(_table([*LOAD, *REQUESTS], fleet)),
            "### Placements that raise the limit",
            in_markdown(_table([*names, *LIFTED], lifted(results))),
        )
    )


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    return [[name for name, _ in columns], *([text(row) for _, text in columns] for row in rows)]


def _in_short(results: Row) -> list[str]:
    fleet = results["rows"]["fleet"]
    return [
        _limits(fleet),
        _lifts(lifted(results)),
        _costs(fleet),
        *_behind(fleet),
        _retention(fleet[1]),
    ]


def _the_fleet() -> str:
    load = Load(0)
    an_agent = load.gibibytes * GIBIBYTE / load.agents
    filled_ms = 1000 * ProduceSettings().flush_bytes / an_agent
    return (
        f"Unless a table says otherwise, the fleet receives {load.gibibytes:g} GiB/s through {load.agents} agents in "
        f"{load.zones} zones, and {CONSUMER_GROUPS} consumer groups read everything. For every {GROUP} partitions, "
        f"there is a transactional producer in each zone, with batches of up to {BATCH_BYTES >> 10} KiB. A transaction "
        f"lasts {TRANSACTION_MS / 1000:g} s and aborts with a probability of {ABORTED_SHARE:g}. Each agent receives "
        f"{number(an_agent / MEBIBYTE)} MiB/s, and so accumulates the default `produce.flush.bytes` in "
        f"{number(filled_ms)} ms. Rows with longer intervals assume a higher setting."
    )


def _model() -> str:
    return (
        f"The model of a merge assumes that a GET takes {GET_MS} ms, with {READS_AT_ONCE} in flight, that a PUT takes "
        f"{PUT_MS} ms, and that bytes are read and written at {BYTES_A_MS / 1000:g} MB/s. Each agent runs one merge at "
        f"a time. Compaction covers all partitions once every {COMPACTION_MS // 60_000} minutes, with {TASKS} tasks of "
        "the same speed."
    )


def _limits(fleet: Sequence[Row]) -> str:
    least, most = min(fleet, key=full_at), max(fleet, key=full_at)
    return (
        f"One control plane is full at {number(full_at(least))} GiB/s with {_of(least)}, and at "
        f"{number(full_at(most))} GiB/s with {_of(most)}, if agents and partitions grow with the load. The number of "
        "slices matters more than the number of bytes."
    )


def _lifts(rows: Sequence[Row]) -> str:
    whole = {
        (load.zones, load.interval_ms): row for row in rows if (load := load_of(row)).gibibytes == 1
    }
    at = {key: number(full_at(row)) for key, row in whole.items()}
    (part,) = (row for row in rows if clusters_of(row) > 1)
    return (
        f"Placement raises this limit. With {load_of(rows[0]).partitions:,} partitions and flushes every 1,000 ms, a "
        f"control plane is full at {at[20, 1000]} GiB/s if every agent receives data of every partition, at "
        f"{at[3, 1000]} GiB/s with one agent per partition in each of 3 zones (the actual placement), and at "
        f"{at[1, 1000]} GiB/s with one agent per partition. With flushes every 250 ms, the latter two are "
        f"{at[3, 250]} and {at[1, 250]} GiB/s. With flushes every 250 ms, {clusters_of(part)} clusters that share a "
        "bucket, each with a part of the agents and partitions, are full at "
        f"{number(full_at(part) * clusters_of(part))} GiB/s in total. Each topic is then in one "
        "cluster, and its clients must know which one."
    )


def _costs(fleet: Sequence[Row]) -> str:
    least, most = min(fleet, key=dollars), max(fleet, key=dollars)
    return (
        f"Requests cost ${number(dollars(least))} a month with {_of(least)}, and ${number(dollars(most))} with "
        f"{_of(most)} ({load_prices().source}). AutoMQ claims ${number(AUTOMQ_MONTH)} a month at 1 GiB/s; Inkless "
        f"published ${number(12 * INKLESS_MONTH)} a year with 3 GiB/s out, which is ${number(INKLESS_MONTH)} a month. "
        "The figures for Lacuna cover only requests, not machines, storage or traffic."
    )


def _behind(fleet: Sequence[Row]) -> list[str]:
    # Larger slices are never merged. Only aborted ones are rewritten, so a lower share is normal.
    small = [row for row in fleet if load_of(row).slice_bytes < MergeSettings().small_bytes]
    late = [row for row in small if rewritten(row) < MUCH]
    if not late:
        return []
    text = (
        f"**Merging falls behind** with {'; '.join(map(_of, late))}. In these runs, less than {100 * MUCH:g}% of the "
        "new extents are rewritten, so the extents and memory of such a fleet would grow."
    )
    return [text]


def _retention(row: Row) -> str:
    an_extent = row["memory"] / row["extents"]
    merged = row["merging, size"] / row["merging, extents_after"]
    a_day = DAY_SECONDS * GIBIBYTE * (1 - ABORTED_SHARE)
    return (
        f"A day of retention amounts to {number(a_day / GIBIBYTE)} GiB of committed records, which cost "
        f"${number(load_prices().of_a_month(int(a_day)))} a month to store. By calculation, with {number(an_extent)} "
        f"bytes per extent and {number(merged / 1024)} KiB per merged extent ({_of(row)}), the metadata takes "
        f"{number(a_day / merged * an_extent / GIBIBYTE)} GiB of the control plane's memory."
    )


def _of(row: Row) -> str:
    load = load_of(row)
    return f"{load.partitions:,} partitions and flushes every {load.interval_ms:,} ms"


def keep(results: Row) -> None:
    rewrite(PAGE, page_part(results), BEGIN, END)
    draw(results, PICTURE)


def draw(results: Row, path: Path) -> None:
    fleet: list[Row] = results["rows"]["fleet"]
    with picture(path, 7.4) as whole:
        halves: Any = whole.subfigures(2, 1, height_ratios=(1.25, 1))
        cores, cost = halves[0].subplots(1, 2)
        _curves(cores, "Cores of the event loop", fleet, lambda row: row["loop cpu"])
        _limit(cores, 1, "full", above=True)
        cores.legend(loc="upper left", frameon=False, fontsize=8.5, labelcolor=INK)
        _curves(cost, "Requests, $ a month", fleet, dollars)
        _limit(cost, AUTOMQ_MONTH, "AutoMQ, its claim")
        _limit(cost, INKLESS_MONTH, "Inkless, published", above=True)
        _bars(halves[1].subplots(), lifted(results))


def _curves(axes: Any, title: str, rows: Sequence[Row], value: Callable[[Row], float]) -> None:
    intervals = sorted({load_of(row).interval_ms for row in rows})
    for interval_ms, colour in zip(intervals, COLOURS, strict=False):
        same = [row for row in rows if load_of(row).interval_ms == interval_ms]
        partitions = [load_of(row).partitions for row in same]
        label = f"flushes every {interval_ms:,} ms"
        axes.plot(partitions, list(map(value, same)), color=colour, marker="o", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted({load_of(row).partitions for row in rows}))
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("partitions, at 1 GiB/s")
    axes.tick_params(length=0)
    axes.set_title(title, **{**TITLE, "pad": 8})


def _limit(axes: Any, value: float, name: str, *, above: bool = False) -> None:
    axes.axhline(value, color=INK, linestyle=":", linewidth=1.4)
    axes.annotate(
        name,
        (0.01, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3 if above else -3),
        textcoords="offset points",
        ha="left",
        va="bottom" if above else "top",
        fontsize=8.5,
    )


def _bars(axes: Any, rows: Sequence[Row]) -> None:
    names = [name_of(row) for row in rows]
    values = [full_at(row) * clusters_of(row) for row in rows]
    bars = axes.barh(names, values, color=COLOURS[1], height=0.6)
    axes.bar_label(bars, [number(value) for value in values], padding=4, color=INK)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(length=0, labelsize=8.5)
    axes.set_title(
        "Throughput at which the control planes are saturated (GiB/s)", **{**TITLE, "pad": 8}
    )
