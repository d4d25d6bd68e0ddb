"""`lacuna status`: the health of a cluster, with problems first."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final

import click

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.command_line import option
from lacuna.cli.console import (
    is_for_people,
    is_for_programs,
    out,
    print_collected,
    print_line,
    table,
)
from lacuna.cli.errors import INTERRUPTED
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.units import parse_duration, show_count, show_size
from lacuna.operating.checkup import Problem, Seen, Severity, look, problems_of
from lacuna.operating.kafka import Agents

_STYLES: Final = {
    Severity.FAILING: "red",
    Severity.DEGRADED: "yellow",
    Severity.ADVICE: "dim",
}

Part = tuple[str, str, object]


def status(
    watch: Annotated[
        str | None,
        option(
            alone="5s",
            metavar="PAUSE",
            help="Check repeatedly, with this pause between checks. Without a value: 5s.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Checks a cluster, and shows problems first, each with its remedy.

    The command checks agents, control planes, journal, store, merging, disk, clocks, transactions and settings. Each
    part has two seconds to answer, so the command works even while parts are down. An agent writes, reads and deletes a
    small object to test the store. Settings that protect less than they could are listed as advice.

    Exit code: 0 if nothing is wrong or there is only advice, 1 if something is failing or degraded.
    """
    if watch is None:
        if not _report(bootstrap):
            raise click.exceptions.Exit(1)
        return
    pause = parse_duration(watch, "--watch")
    with suppress(BrokenPipeError):
        try:
            while True:
                if out.is_terminal and is_for_people():
                    out.clear()
                _report(bootstrap)
                time.sleep(pause)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


def _report(agents: Agents) -> bool:
    """Print the cluster's health. Return True if nothing is wrong."""
    seen = asyncio.run(look(agents))
    problems = problems_of(seen, SystemWallClock().now_ms())
    wrong = [each for each in problems if each.severity is not Severity.ADVICE]
    _show_problems(problems, seen, len(wrong))
    _show_parts(seen)
    print_collected()
    return not wrong


def _show_problems(problems: list[Problem], seen: Seen, wrong: int) -> None:
    name = f"Cluster {seen.cluster_id}" if seen.cluster_id else "No cluster was reached"
    print_line(f"{name}: {show_count(wrong, 'problem') if wrong else 'all is well'}")
    if problems or is_for_programs():
        table(
            ("severity", "part", "problem", "what to do"),
            [(each.severity.name.lower(), *each[1:]) for each in problems],
            styles=[_STYLES[each.severity] for each in problems],
            name="problems",
        )


def _show_parts(seen: Seen) -> None:
    if not seen.cluster_id and not is_for_programs():
        return  # nothing answered
    table(("part", "what", "value"), _parts(seen), name="parts")
    table(
        ("agent", "address", "zone", "kernel", "state"),
        (
            (
                each.node_id,
                each.address,
                each.zone,
                each.kernel,
                _state(each.problem, each.cannot_store),
            )
            for each in seen.agents
        ),
        name="agents",
    )
    table(("what", "state", "count"), _counts(seen), name="counts")


def _state(problem: str, cannot_store: bool) -> str:
    if problem:
        return "does not answer"
    return "cannot store records" if cannot_store else "serves"


def _parts(seen: Seen) -> Iterator[Part]:
    if seen.health is not None:
        yield "lacuna", "version", seen.health.version
        store = seen.health.store
        if not store.problem:
            yield "store", "PUT ms", round(store.put_seconds * 1000, 1)
            yield "store", "GET ms", round(store.get_seconds * 1000, 1)
        for each in seen.health.control_planes:
            status = each.status
            role = "leader" if status.is_leader else "standby"
            yield "control plane", each.address, "does not answer" if each.problem else role
            if status.is_leader:
                yield "lease", "epoch", status.epoch
                yield "journal", "place", status.journal
                yield "journal", "position", status.position
                yield "journal", "waiting commands", status.backlog
                if status.disk_bytes:
                    yield "disk", "free", show_size(status.disk_free_bytes)
                yield "clocks", "ahead of the cluster, s", round(status.clocks_ahead_ms / 1000, 1)
                for standby in status.standbys:
                    behind = max(status.position - standby.position, 0)
                    yield "control plane", f"{standby.address}, records behind", behind
    if seen.described is not None:
        yield "records", "objects", seen.described.objects
        yield "records", "extents", seen.described.extents
        yield "transactions", "partitions whose readers wait", seen.described.partitions_blocked
        yield "transactions", "oldest, s", round(seen.described.oldest_transaction_ms / 1000, 1)
    if seen.merges is not None:
        yield "merging", "extents merged", seen.merges.merged.extents_before
        yield "collection", "objects deleted", seen.merges.objects_deleted
        yield "collection", "objects to delete", seen.merges.objects_replaced


def _counts(seen: Seen) -> Iterator[tuple[str, str, int]]:
    if seen.topics is not None and seen.partitions is not None:
        yield "topics", "", seen.topics
        yield "partitions", "", seen.partitions
    for state, count in sorted(seen.groups.items()):
        yield "groups", state, count
    for state, count in sorted(seen.transactions.items()):
        yield "transactional ids", state, count
