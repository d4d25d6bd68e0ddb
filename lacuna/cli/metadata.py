"""`lacuna metadata`: snapshots of the metadata in the bucket, for readers without a server."""

from __future__ import annotations

from time import gmtime, sleep, strftime
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.client.errors import ControlPlaneUnavailable
from lacuna.cli.console import out, table
from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import print_error
from lacuna.cli.lazy import MARKUP
from lacuna.cli.location import locate
from lacuna.cli.options import Control, Data, Store
from logstore.objects.store import wall_clock_ms

if TYPE_CHECKING:
    from pipeline.control import ControlPlane

app = typer.Typer(
    help="Publish and show snapshots of the metadata, which readers without a server need.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
)


@app.command("publish")
def publish(
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            help="How long the snapshot is valid; nothing that it speaks of is collected before. At "
            "most 7d.",
        ),
    ] = "24h",
    watch: Annotated[
        str | None,
        typer.Option("--watch", help="Publish again and again, so often: 10m, 1h. Ctrl-C ends it."),
    ] = None,
    control: Control = None,
    data: Data = None,
    store: Store = None,
) -> None:
    """Writes a snapshot of all topics' metadata to the bucket.

    Readers that say metadata=bucket need no server then: they see the log as it was at the last snapshot.
    """
    from pipeline.control import ControlPlane
    from pipeline.stores import check_store

    keep_ms = int(parse_duration(keep, "--keep") * 1000)
    pause = parse_duration(watch, "--watch") if watch else 0.0
    location = locate(data, control, store)
    with ControlPlane(location.require_control()) as plane:
        check_store(location.store, plane.cluster_id)
        _publish(plane, location.store, keep_ms)
        while pause:
            sleep(pause)
            try:
                _publish(plane, location.store, keep_ms)
            except ControlPlaneUnavailable as error:
                print_error(str(error))  # it may be back behind the next pause


def _publish(plane: ControlPlane, store: str, keep_ms: int) -> None:
    from pipeline.metadata.publish import publish_metadata
    from pipeline.stores import shared_store

    done = publish_metadata(plane, shared_store(store), keep_ms=keep_ms, now_ms=wall_clock_ms())
    out.print(
        f"published {done.partitions} partitions, {done.bytes_written} bytes, valid until "
        f"{_time(done.name.valid_until_ms)}; {done.removed} old snapshots removed",
        markup=False,
        soft_wrap=True,
    )


@app.command("show")
def show(data: Data = None, store: Store = None) -> None:
    """Lists the snapshots in the bucket and the topics of the newest valid one; asks no server."""
    from pipeline.metadata.stored import StoredMetadata, published
    from pipeline.stores import check_store, shared_store

    location = locate(data, None, store, needs_control=False)
    cluster_id = check_store(location.store)
    table(
        ("published", "valid until"),
        (
            (_time(name.published_ms), _time(name.valid_until_ms))
            for name in published(shared_store(location.store), cluster_id)
        ),
    )
    metadata = StoredMetadata(location.store)
    rows = []
    for topic in sorted(metadata.topics().values(), key=lambda topic: topic.name):
        keys = [(topic.topic_id, partition) for partition in range(topic.partition_count)]
        logs = metadata.partition_logs(keys)
        rows += [
            (topic.name, log.partition, log.log_start_offset, log.last_stable_offset)
            for log in logs
        ]
    table(("topic", "partition", "log start", "last stable"), rows)


def _time(milliseconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(milliseconds / 1000))
