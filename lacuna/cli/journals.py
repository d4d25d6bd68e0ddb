"""`lacuna controlplane copy` and `set-time`, which work on a journal that is not in use."""

import time
from typing import Annotated

from lacuna.cli.command_line import option, takes
from lacuna.cli.configuration import Configuration
from lacuna.cli.console import asynchronous, print_line
from lacuna.cli.places import DataFolder, JournalPlace, LeaderLease, StoreUrl
from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.journal.kinds import forms
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.logstore.objects.url import with_keys
from lacuna.operating.journals import journal_source, journal_target


@asynchronous
async def copy(
    source: Annotated[str, option("--from", help=f"The journal to copy: {forms()}.")],
    target: Annotated[
        str, option("--to", help="The target journal, in the same form. It must not exist yet.")
    ],
    settings: Annotated[Configuration, takes(StoreUrl, LeaderLease)],
) -> None:
    """Copies a journal to another location while no control plane is running.

    The records in the store stay where they are. The copy is read back and compared before any control plane can use
    it.
    """
    store, lease_ms = settings.make(StoreUrl).store, settings.make(LeaderLease).lease_ms
    store_url = with_keys(store) if store else ""
    with (
        journal_source(source, store_url, lease_ms / 1000) as opened,
        journal_target(target, store_url) as place,
    ):
        copied = await copy_journal(opened, place)
    print_line(f"copied cluster {copied.cluster_id}")
    print_line(f"position {copied.position}")
    print_line(f"sha256 {copied.digest}")
    print_line(
        "From now on, run control planes on only one of the two journals. "
        "Once one of them has new records, agents reject the other."
    )


@asynchronous
async def set_time(
    settings: Annotated[Configuration, takes(JournalPlace, StoreUrl, LeaderLease, DataFolder)],
) -> None:
    """Sets a cluster's time from this machine's clock, while no control plane is running.

    Use this command after a wrong clock has moved the cluster's time. Check this machine's clock first: records that
    have exceeded their retention at the new time are deleted.
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
