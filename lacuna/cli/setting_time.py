"""`lacuna controlplane set-time`: sets the time in a journal to this machine's time, after a clock was wrong."""

import time
from typing import Annotated

from lacuna.cli.command_line import takes
from lacuna.cli.configuration import Configuration
from lacuna.cli.console import asynchronous, print_line
from lacuna.cli.places import DataFolder, JournalPlace, LeaderLease, StoreUrl
from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.logstore.objects.url import with_keys
from lacuna.operating.journals import journal_source


@asynchronous
async def set_time(
    settings: Annotated[Configuration, takes(JournalPlace, StoreUrl, LeaderLease, DataFolder)],
) -> None:
    """Sets a cluster's time to that of this machine's clock, while no control plane runs.

    Use it after a wrong clock has moved the time. Check this machine's clock first: records that are older than their
    retention by the new time are deleted.
    """
    store = settings.make(StoreUrl).store
    journal = settings.make(JournalPlace).journal or f"sqlite:{settings.make(DataFolder).data}"
    lease = settings.make(LeaderLease).lease_ms / 1000
    with journal_source(journal, with_keys(store) if store else "", lease) as opened:
        async with opened as source:
            before_ms, now_ms = source.clock_ms, SystemClock().now_ms()
            records = machine.set_time(now_ms).records
            await source.add([record.SerializeToString() for record in records])
    print_line(f"before {_written(before_ms)}")
    print_line(f"now {_written(now_ms)}")


def _written(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
