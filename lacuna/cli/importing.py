"""`lacuna import`: run, status, promote, verify."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.base.client_security import PLAINTEXT, read_client_properties
from lacuna.cli.command_line import TEXT, Group, argument, option
from lacuna.cli.console import asynchronous, err, print_line, printable, table
from lacuna.cli.errors import fail
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, JobPlace
from lacuna.cli.units import parse_size, show_count, show_size
from lacuna.operating.kafka import Agents

if TYPE_CHECKING:
    from lacuna.pipeline.location import ClusterLocation

app = Group(
    help="Moves in from Kafka: copies topics with their offsets, groups and rights, and follows until promoted."
)

_SOURCE_CONFIG = option(
    "--source-config",
    envvar="LACUNA_SOURCE_CONFIG",
    parser=Path,
    metavar="FILE",
    help="File with TLS and SASL settings for connections to the source, in the format of Kafka's client.properties.",
)


def _to_source(context: click.Context, _: click.Parameter, value: str | None) -> Agents | None:
    """Return the addresses of the source and the security of connections to it, from --from."""
    if value is None:
        return None
    file = context.meta.get("source_config")
    return Agents(value, PLAINTEXT if file is None else read_client_properties(file))


Source = Annotated[
    Agents,
    option(
        "--from",
        envvar="LACUNA_FROM",
        parser=TEXT,
        callback=_to_source,
        beside=(_SOURCE_CONFIG,),
        help="Address of any broker of the cluster to copy from, HOST:PORT. Several are tried in turn.",
    ),
]
Wanted = Annotated[
    list[str] | None,
    option(
        "--topic",
        "-t",
        help="Only this topic, or topics that match a pattern such as 'logs-*'. May be repeated.",
    ),
]
LeftOut = Annotated[
    list[str] | None,
    option("--exclude", help="Not this topic, or topics that match a pattern. May be repeated."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options of `lacuna import run`."""

    source: Source
    topic: Wanted = None
    exclude: LeftOut = None
    once: Annotated[
        bool,
        option(
            "--once/--follow",
            help="End once everything that was decided at the beginning is here, instead of following.",
        ),
    ] = False
    rights: Annotated[bool, option("--rights/--no-rights", help="Copy ACLs and quotas, too.")] = (
        True
    )
    accept_gaps: Annotated[
        bool,
        option(
            "--accept-gaps",
            help="Go on with a hole where the source has deleted records before they were copied.",
        ),
    ] = False
    rate: Annotated[
        str | None,
        option("--rate", help="The most bytes that are read in a second, such as 20MiB."),
    ] = None
    place: JobPlace


@app.adds("run")
def run(given: Given) -> None:
    """Copies topics with their offsets, and follows the source until Ctrl-C.

    Aborted records are not copied; their offsets are holes. Records of open transactions are copied once the source
    has decided. A copy refuses other producers until `lacuna import promote`. Run the command again after it has
    ended: it goes on where the copies end.
    """
    # An event loop of its own finds the cluster, so this cannot be a coroutine.
    _run(given, locate(given.place))


@asynchronous
async def _run(given: Given, location: "ClusterLocation") -> None:
    from lacuna.importing.mirror import Importer, ImportSettings
    from lacuna.importing.topics import Selection
    from lacuna.operating.control import connect
    from lacuna.pipeline.stores import check_store, shared_store

    settings = ImportSettings(
        selection=Selection(given.topic or (), given.exclude or ()),
        is_once=given.once,
        copies_rights=given.rights,
        accepts_gaps=given.accept_gaps,
        bytes_per_second=None if given.rate is None else parse_size(given.rate, "--rate"),
    )
    async with connect(location.require_control()) as control:
        check_store(location.store, control.cluster.cluster_id)
        store = shared_store(location.store)
        importer = Importer(given.source, given.place.bootstrap, control, store, settings, _say)
        await importer.run()
    progress = importer.progress
    print_line(
        f"copied {show_count(len(progress.tracks), 'partition')}: "
        f"{show_size(progress.counts.bytes_copied)} in {show_count(progress.counts.segments, 'object')}"
    )
    stopped = [each for each in progress.tracks.values() if each.stopped]
    if stopped or progress.left:
        fail("not everything was copied: the lines above say what and why")


def _say(line: str) -> None:
    err.print(printable(line), markup=False, soft_wrap=True)


@app.adds("status", shows=True)
@asynchronous
async def status(source: Source, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Shows how far each mirrored partition is behind its source.

    The lag counts the offsets that are decided at the source and not here yet. Open are those that the source has not
    decided: they belong to open transactions, or follow the first record of one.
    """
    from lacuna.importing.cluster import Kafka
    from lacuna.importing.cutover import standings

    async with Kafka(source, "the source") as there, Kafka(bootstrap, "the target") as here:
        found = await standings(there, here)
    table(
        ("topic", "partition", "copied", "source", "lag", "open"),
        (
            (*each.place, each.copied, each.stable_offset, each.lag, each.undecided)
            for each in found
        ),
    )


@app.adds("promote")
@asynchronous
async def promote(
    source: Source,
    topic: Annotated[
        list[str] | None, argument(help="Topics to promote.", show_default=False)
    ] = None,
    promote_all: Annotated[
        bool, option("--all", help="Promote all mirrors of the source.")
    ] = False,
    force: Annotated[
        bool,
        option(
            "--force",
            help="Promote although records are missing, or the source does not answer. They stay missing.",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lets mirrored topics accept the records of producers, which ends their copying.

    Stop the producers at the source first. A topic is promoted only if everything is here and the source has no open
    transaction in it. Committed offsets are copied a last time. Producers start anew: sequences and open transactions
    do not move.
    """
    from lacuna.importing.cutover import cut_over

    for line in await cut_over(source, bootstrap, topic or (), is_all=promote_all, is_forced=force):
        print_line(line)


@app.adds("verify")
@asynchronous
async def verify(
    source: Source,
    topic: Wanted = None,
    exclude: LeftOut = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compares copies with their source: each offset, key, value, header and timestamp, and groups' offsets.

    Both are read as consumers read them, and the copy under both isolation levels. It compares what both have, up to
    what the source has decided, and reports the first difference of each partition.
    """
    from lacuna.importing.cluster import Kafka
    from lacuna.importing.topics import Selection
    from lacuna.importing.verifying import compare_mirrors

    records = partitions = 0
    differences = []
    async with Kafka(source, "the source") as there, Kafka(bootstrap, "the target") as here:
        selection = Selection(topic or (), exclude or ())
        async for compared in compare_mirrors(there, here, selection):
            partitions += compared.is_partition
            records += compared.records
            if compared.difference:
                differences.append(compared.difference)
                _say(compared.difference)
    if differences:
        fail(f"{show_count(len(differences), 'difference')}: the lines above name them")
    print_line(
        f"equal: {show_count(records, 'record')} of {show_count(partitions, 'partition')}, under both isolation "
        "levels, and the committed offsets of groups"
    )
