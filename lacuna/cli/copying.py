"""`lacuna controlplane copy`: copies a journal between SQLite, PostgreSQL and the bucket."""

from typing import Annotated

from lacuna.cli.command_line import option, takes
from lacuna.cli.configuration import Configuration
from lacuna.cli.console import asynchronous, print_line
from lacuna.cli.places import LeaderLease, StoreUrl
from lacuna.controlplane.journal.kinds import forms
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.logstore.objects.url import with_keys
from lacuna.operating.journals import journal_source, journal_target


@asynchronous
async def copy(
    source: Annotated[str, option("--from", help=f"The journal to copy: {forms()}.")],
    target: Annotated[
        str, option("--to", help="The target, in the same form. It must not exist yet.")
    ],
    settings: Annotated[Configuration, takes(StoreUrl, LeaderLease)],
) -> None:
    """Copies a journal to another place, while no control plane runs.

    The records stay where they are. The copy is read back and compared before a control plane can lead it.
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
