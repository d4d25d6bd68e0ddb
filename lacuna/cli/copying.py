"""`lacuna controlplane copy`: moves a journal between SQLite, PostgreSQL and the bucket."""

from typing import Annotated

from lacuna.cli.command_line import option
from lacuna.cli.console import asynchronous, tell
from lacuna.cli.options import LEASE_MS, LeaseMs
from lacuna.controlplane.journal.kinds import forms
from lacuna.controlplane.journal.moving.copying import copy_journal
from lacuna.logstore.objects.url import JOURNAL_FORMS, with_keys
from lacuna.operating.journals import journal_source, journal_target


@asynchronous
async def copy(
    source: Annotated[str, option("--from", help=f"The journal to copy: {forms()}.")],
    target: Annotated[
        str, option("--to", help="The target, in the same form. It must not exist yet.")
    ],
    store: Annotated[
        str | None,
        option(
            "--store",
            key="store",
            help=f"The cluster's bucket, {JOURNAL_FORMS}: for a journal in the bucket, and for one in "
            "PostgreSQL whose control planes have a --store.",
        ),
    ] = None,
    lease_ms: LeaseMs = LEASE_MS,
) -> None:
    """Copies a journal to another place, while no control plane runs.

    The records stay where they are. The copy is read back and compared before a control plane can lead it.
    """
    store_url = with_keys(store) if store else ""
    with (
        journal_source(source, store_url, lease_ms / 1000) as opened,
        journal_target(target, store_url) as place,
    ):
        copied = await copy_journal(opened, place)
    tell(f"copied cluster {copied.cluster_id}")
    tell(f"position {copied.position}")
    tell(f"sha256 {copied.digest}")
    tell(
        "From now on run control planes on one of the two only; agents refuse the other one once something was written."
    )
