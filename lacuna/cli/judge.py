"""`lacuna judge`: puts a load on any Kafka cluster, and checks what its clients observe."""

import asyncio
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from lacuna.base.errors import UserError
from lacuna.cli.command_line import option
from lacuna.cli.console import err, is_for_programs, print_line, printable, table
from lacuna.cli.errors import print_error
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.units import show_count

if TYPE_CHECKING:
    from lacuna.judge.facts import Anomaly
    from lacuna.judge.history import History
    from lacuna.judge.report import Shown

_ANOMALY: Final = 1
_NOT_JUDGED: Final = 2
_FAULTS: Final = "Faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    seconds: Annotated[
        float,
        option(
            min=1, help="How long the load lasts. Afterwards, the judge reads everything again."
        ),
    ] = 30.0
    fault: Annotated[
        list[str] | None,
        option(
            metavar="COMMAND",
            help="A shell command that causes a fault in the cluster. May be repeated; the commands run one after "
            "another.",
            panel=_FAULTS,
        ),
    ] = None
    heal: Annotated[
        list[str] | None,
        option(
            metavar="COMMAND",
            help="A shell command that ends a fault. The first --heal ends the first --fault, and so on.",
            panel=_FAULTS,
        ),
    ] = None
    interval: Annotated[
        float,
        option(
            min=1,
            help="Seconds from one fault to the next. Each fault is healed after half of that time.",
            panel=_FAULTS,
        ),
    ] = 10.0
    visible_within: Annotated[
        float,
        option(
            min=1,
            help="Seconds within which committed records must become visible while there is no fault.",
        ),
    ] = 30.0
    html: Annotated[
        Path | None, option(metavar="FILE", help="Write a page with timelines to this file.")
    ] = None
    history: Annotated[
        Path | None,
        option(metavar="FILE", help="Write all operations to this file, as lines of text."),
    ] = None
    read: Annotated[
        Path | None,
        option(
            metavar="FILE",
            help="Judge the operations in a file written by --history, instead of a cluster.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(help="The seed of the load's random choices. Default: a new one for each run."),
    ] = None
    keep_topics: Annotated[bool, option(help="Keep the topics of the load.")] = False


def judge(given: Given) -> None:
    """Judges any Kafka cluster by what its clients observe: puts a load on it, and looks for anomalies.

    The load consists of transactional and idempotent producers, exactly-once loops, transactions that read lists and
    append to them, consumers with both isolation levels, and a share group. The load uses topics of its own, which are
    deleted at the end. For each kind of anomaly, the command prints the smallest history that shows it. The exit code
    is 0 if there is no anomaly, 1 if there is one, and 2 if the cluster could not be judged.
    """
    from lacuna.judge.checker import judge as judged
    from lacuna.judge.history import HistoryError
    from lacuna.judge.report import explained

    try:
        history = _read(given.read) if given.read is not None else _observed(given)
    except (HistoryError, OSError, UserError) as error:
        print_error(f"not judged: {error}")
        raise click.exceptions.Exit(_NOT_JUDGED) from None
    anomalies = judged(history, visible_within=given.visible_within)
    shown = explained(history, anomalies, given.visible_within)
    _print(history, anomalies, shown)
    if given.html is not None:
        from lacuna.judge.report import page

        title = f"Verdict on {given.read or given.bootstrap}"
        _write(given.html, page(history, anomalies, shown, title))
    if anomalies:
        raise click.exceptions.Exit(_ANOMALY)


def _read(path: Path) -> "History":
    from lacuna.judge.history import parse

    history = parse(path.read_text(encoding="utf-8"))
    if not history:
        raise UserError(f"{path} contains no operations: create such a file with --history")
    return history


def _observed(given: Given) -> "History":
    """Run the load, and return the history. The history is written even if the cluster cannot be judged.

    If the final reading fails after anomalies have been found, the history is returned nevertheless.
    """
    from lacuna.judge.checker import judge as judged
    from lacuna.judge.client import Brokers
    from lacuna.judge.history import show
    from lacuna.judge.workload import Plan, Workload

    if len(given.heal or ()) > len(given.fault or ()):
        raise UserError(
            "there are more --heal options than --fault options: use at most one --heal for each --fault"
        )
    seed = secrets.randbits(32) if given.seed is None else given.seed
    plan = Plan(
        seconds=given.seconds,
        name=f"judge-{secrets.token_hex(4)}",
        faults=list(zip_longest(given.fault or (), given.heal or (), fillvalue="")),
        interval=given.interval,
        visible_within=given.visible_within,
        keeps_topics=given.keep_topics,
    )
    _say(f"seed {seed}, topics {plan.name}-*, {given.seconds:g} s")
    brokers = Brokers(given.bootstrap.addresses, given.bootstrap.security)
    chance = random.Random(seed)  # noqa: S311
    workload = Workload(brokers, plan, chance, _say)
    try:
        asyncio.run(workload.run())
    except UserError as error:
        for reason, count in sorted(workload.failures.items(), key=lambda row: -row[1])[:5]:
            _say(f"{show_count(count, 'step')} failed: {reason}")
        if not workload.is_whole or not judged(workload.history):
            raise
        _say(str(error))
    finally:
        if given.history is not None:
            _write(given.history, show(workload.history))
    return workload.history


def _write(path: Path, text: str) -> None:
    """Write a file. A failure is reported, but changes neither the verdict nor the exit code."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print_error(f"{path} could not be written: {error.strerror}")


def _say(line: str) -> None:
    err.print(printable(line), markup=False, soft_wrap=True, style="dim")


def _print(history: "History", anomalies: Sequence["Anomaly"], shown: Sequence["Shown"]) -> None:
    from lacuna.judge.report import verdict_of

    if is_for_programs():
        table(
            ("kind", "subject", "why", "history"),
            (
                (
                    each.anomaly.kind,
                    each.anomaly.subject,
                    each.anomaly.why,
                    "\n".join(map(str, each.history)),
                )
                for each in shown
            ),
        )
        return
    for each in shown:
        print_line(f"{each.anomaly.kind}: {each.anomaly.subject}: {each.anomaly.why}")
        for operation in each.history:
            print_line(f"    {operation}")
    print_line(f"{verdict_of(anomalies)}, in {show_count(len(history), 'operation')}")
