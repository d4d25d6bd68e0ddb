"""`lacuna import`: run, status, promote, reverse-offsets, verify."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from lacuna.base.errors import UserError
from lacuna.cli.command_line import TEXT, Group, argument, option
from lacuna.cli.console import asynchronous, err, print_line, printable, table
from lacuna.cli.errors import fail
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, JobPlace, agents_from
from lacuna.cli.units import parse_duration, parse_size, show_count, show_size
from lacuna.operating.kafka import Agents

if TYPE_CHECKING:
    from lacuna.importing.mirror import Importer
    from lacuna.pipeline.location import ClusterLocation

_PLACE_AND_OFFSET: Final = re.compile(r"(.+):(\d+)=(\d+)")
_SHOWN_SECONDS: Final = 0.5

app = Group(
    help="Migrates from Kafka: copies topics with their offsets, groups and rights, and follows "
    "the source until they are promoted."
)

_SOURCE_CONFIG = option(
    "--source-config",
    envvar="LACUNA_SOURCE_CONFIG",
    parser=Path,
    metavar="FILE",
    help="File with TLS and SASL settings for connections to the source, in the format of Kafka's client.properties.",
)


Source = Annotated[
    Agents,
    option(
        "--from",
        envvar="LACUNA_FROM",
        parser=TEXT,
        callback=agents_from("--source-config"),
        beside=(_SOURCE_CONFIG,),
        help="Address of any broker of the cluster to copy from, HOST:PORT. Several addresses, separated by commas, "
        "are tried one after another. An SRV name stands for the addresses that it lists.",
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
    option("--exclude", help="Skip this topic, or topics that match a pattern. May be repeated."),
]


_KEEP_ABORTED: Final = "--keep-aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    source: Source
    topic: Wanted = None
    exclude: LeftOut = None
    once: Annotated[
        bool,
        option(
            "--once/--follow",
            help="Copy only what the source has decided so far, and exit, instead of following the source.",
        ),
    ] = False
    rights: Annotated[bool, option("--rights/--no-rights", help="Also copy ACLs and quotas.")] = (
        True
    )
    accept_gaps: Annotated[
        bool,
        option(
            help="If the source deleted records before they were copied, leave a hole in their place and continue."
        ),
    ] = False
    keep_aborted: Annotated[
        bool,
        option(
            _KEEP_ABORTED,
            help="Also copy the records of aborted transactions, for read_uncommitted consumers.",
        ),
    ] = False
    max_bytes_per_second: Annotated[
        str | None,
        option(help="Maximum average number of bytes read per second, such as 20MiB."),
    ] = None
    place: JobPlace


@app.adds("run")
def run(given: Given) -> None:
    """Copies topics with their offsets, and follows the source until Ctrl-C.

    Aborted records are not copied unless you add --keep-aborted; their offsets become holes. Records of open
    transactions are copied once the source has committed them. A copied topic rejects other producers until `lacuna
    import promote`. If the command ends, run it again: it continues where the copies end.
    """
    # `locate` runs its own event loop, so this cannot be a coroutine.
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
        keeps_aborted=given.keep_aborted,
        bytes_per_second=None
        if given.max_bytes_per_second is None
        else parse_size(given.max_bytes_per_second, "--max-bytes-per-second"),
    )
    async with connect(location.require_control()) as control:
        check_store(location.store, control.cluster.cluster_id)
        store = shared_store(location.store)
        importer = Importer(given.source, given.place.bootstrap, control, store, settings, _say)
        await _shown(importer)
    progress = importer.progress
    print_line(
        f"copied {show_count(len(progress.tracks), 'partition')}: "
        f"{show_size(progress.counts.bytes_copied)} in {show_count(progress.counts.segments, 'object')}"
    )
    stopped = [each for each in progress.tracks.values() if each.stopped]
    if stopped or progress.left:
        fail("not everything was copied: the lines above say what is missing and why")


async def _shown(importer: "Importer") -> None:
    """Run an importer and, on a terminal, show how many offsets have been copied."""
    from lacuna.cli.progress import offsets_done

    running = asyncio.ensure_future(importer.run())
    try:
        with offsets_done() as bar:
            bar.stage("offsets copied")
            done = total = 0
            has_ended = False
            while not has_ended:
                has_ended = running.done()
                before = done, total
                done, total = importer.progress.done, importer.progress.total
                bar.expect(total - before[1])
                bar.advance(done - before[0])
                await asyncio.wait([running], timeout=_SHOWN_SECONDS)
    finally:
        running.cancel()
    await running


def _say(line: str) -> None:
    err.print(printable(line), markup=False, soft_wrap=True)


@app.adds("status", shows=True)
@asynchronous
async def status(
    source: Source,
    transactions: Annotated[
        bool,
        option(
            help="Instead, show the source's transactional ids, which are not copied, and their states."
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Shows how far each mirrored partition is behind its source.

    The lag counts the offsets that are decided at the source but not copied yet. Offsets are open until the source
    decides them: they belong to open transactions, or follow the first record of one. A transaction appears to hang if
    it has been idle for 15 minutes and no coordinator lists it; the output names it, with the command that ends it.
    """
    from lacuna.importing.cluster import Kafka
    from lacuna.importing.cutover import standings
    from lacuna.importing.transactions import hanging_transactions, source_transactions
    from lacuna.logstore.objects.store import wall_clock_ms

    now_ms = wall_clock_ms()
    async with Kafka(source, "the source") as there, Kafka(bootstrap, "the target") as here:
        if transactions:
            listed = await source_transactions(there)
            table(
                ("transactional id", "producer id", "state", "open for s", "partitions"),
                (
                    (
                        each.transactional_id,
                        each.producer_id,
                        each.state,
                        None if each.started_ms < 0 else max(0, now_ms - each.started_ms) // 1_000,
                        " ".join(f"{name}[{index}]" for name, index in each.partitions),
                    )
                    for each in listed
                ),
            )
            return
        found = await standings(there, here)
        table(
            ("topic", "partition", "copied", "source", "lag", "open"),
            (
                (*each.place, each.copied, each.stable_offset, each.lag, each.undecided)
                for each in found
            ),
        )
        undecided = [each.place for each in found if each.undecided]
        try:
            for hanging in await hanging_transactions(there, undecided, now_ms):
                _say(str(hanging))
        except UserError as error:
            _say(f"cannot tell whether transactions are hanging at the source: {error}")


@app.adds("promote")
@asynchronous
async def promote(
    source: Source,
    topic: Annotated[list[str] | None, argument(help="Topics to promote.")] = None,
    promote_all: Annotated[
        bool, option("--all", help="Promote all mirrors of the source.")
    ] = False,
    force: Annotated[
        bool,
        option(
            help="Promote even if records are missing or the source does not answer. Missing "
            "records are not copied later."
        ),
    ] = False,
    at: Annotated[
        list[str] | None,
        option(
            metavar="TOPIC:PARTITION=OFFSET",
            help="Promote once the copy of this partition reaches OFFSET, "
            "even if the source has more records. May be repeated.",
        ),
    ] = None,
    wait: Annotated[
        str | None, option(help="How long to wait for the rest of the records, such as 30s.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lets mirrored topics accept records from producers, and stops copying these topics.

    Stop the producers at the source first. A topic is promoted only if everything has been copied and the source has no
    open transaction in the topic. Committed offsets are copied one last time. Producers start afresh: sequences and
    open transactions are not migrated.
    """
    from lacuna.importing.cutover import Cutover, cut_over

    given = Cutover(
        names=topic or (),
        is_all=promote_all,
        is_forced=force,
        offsets=dict(map(_place_and_offset, at or ())),
        wait_seconds=0.0 if wait is None else parse_duration(wait, "--wait"),
    )
    for line in await cut_over(source, bootstrap, given):
        print_line(line)


def _place_and_offset(text: str) -> tuple[tuple[str, int], int]:
    found = _PLACE_AND_OFFSET.fullmatch(text)
    if found is None:
        fail(f"--at {text}: use TOPIC:PARTITION=OFFSET, such as orders:0=1200")
    return (found[1], int(found[2])), int(found[3])


@app.adds("reverse-offsets")
@asynchronous
async def go_back(
    source: Source,
    topic: Annotated[list[str], argument(help="Topics that were copied and promoted.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Commits to the source the offsets that groups have committed since the promotion, so that consumers can go back.

    Stop the consumers of Lacuna first. Offsets only move forward, and never beyond the end of the source, because the
    source does not have the records that producers have written to Lacuna since the promotion. A group with members at
    the source is left alone.
    """
    from lacuna.importing.cutover import reverse_offsets

    for line in await reverse_offsets(source, bootstrap, topic):
        print_line(line)


@app.adds("verify")
@asynchronous
async def verify(
    source: Source,
    topic: Wanted = None,
    exclude: LeftOut = None,
    keep_aborted: Annotated[
        bool,
        option(
            _KEEP_ABORTED,
            help="Also compare aborted records, because they were copied with this option.",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compares copies with their source: each offset, key, value, header and timestamp, and groups' offsets.

    The command reads the source and the copy as consumers do, and the copy under both isolation levels. It compares the
    offsets that both contain, up to the last one that the source has decided, and reports the first difference in each
    partition.
    """
    from lacuna.importing.cluster import Kafka
    from lacuna.importing.topics import Selection
    from lacuna.importing.verifying import compare_mirrors

    records = partitions = 0
    differences = []
    async with Kafka(source, "the source") as there, Kafka(bootstrap, "the target") as here:
        selection = Selection(topic or (), exclude or ())
        async for compared in compare_mirrors(there, here, selection, keeps_aborted=keep_aborted):
            partitions += compared.is_partition
            records += compared.records
            if compared.difference:
                differences.append(compared.difference)
                _say(compared.difference)
    if differences:
        fail(f"{show_count(len(differences), 'difference')}: see the lines above")
    print_line(
        f"equal: {show_count(records, 'record')} of {show_count(partitions, 'partition')}, under both isolation "
        "levels, and the committed offsets of groups"
    )
