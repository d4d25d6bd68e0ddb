"""`lacuna controlplane set-time`: sets the time in a journal to that of this machine, after a clock was wrong."""

import time
from pathlib import Path
from typing import Annotated

from lacuna.cli.command_line import option
from lacuna.cli.console import asynchronous, tell
from lacuna.cli.options import DEFAULT_DATA, LEASE_MS, LeaseMs, folder
from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.kinds import SHARED_KINDS, forms
from lacuna.logstore.objects.url import JOURNAL_FORMS, with_keys
from lacuna.operating.journals import journal_source


@asynchronous
async def set_time(
    journal: Annotated[
        str | None,
        option(
            "--journal",
            key="controlplane.journal",
            help=f"The journal that several control planes share: {forms(SHARED_KINDS)}. "
            "Default: the journal in the data folder.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "--store",
            key="store",
            help=f"With --journal: the cluster's bucket, {JOURNAL_FORMS}.",
        ),
    ] = None,
    lease_ms: LeaseMs = LEASE_MS,
    data: Annotated[
        Path,
        option(
            "--data",
            "-d",
            key="data",
            parser=folder,
            metavar="PATH",
            help="Folder of the journal.",
        ),
    ] = DEFAULT_DATA,
) -> None:
    """Sets a cluster's time to that of this machine's clock, while no control plane runs.

    Use it after a wrong clock has moved the time. Check this machine's clock first: records that are older than their
    retention by the new time are deleted.
    """
    store_url = with_keys(store) if store else ""
    with journal_source(journal or f"sqlite:{data}", store_url, lease_ms / 1000) as opened:
        async with opened as source:
            before_ms, now_ms = source.clock_ms, SystemClock().now_ms()
            records = machine.set_time(now_ms).records
            await source.add([record.SerializeToString() for record in records])
    tell(f"before {_written(before_ms)}")
    tell(f"now {_written(now_ms)}")


def _written(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
