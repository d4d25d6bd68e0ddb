"""`lacuna metadata`: snapshots of metadata in the bucket, for jobs that read without a control plane."""

from __future__ import annotations

from time import gmtime, sleep, strftime
from typing import TYPE_CHECKING, Annotated

from lacuna.cli.command_line import Group, option
from lacuna.cli.console import print_collected, print_done, table
from lacuna.cli.errors import fail, print_error
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Data, JobKeys, JobPlace, Store
from lacuna.cli.units import parse_duration, show_count, show_size
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.state.settings import LONGEST_PIN_MS
from lacuna.logstore.objects.store import wall_clock_ms

if TYPE_CHECKING:
    from lacuna.pipeline.control import JobClient

_DAY_MS = 86_400_000

app = Group(
    help="Publishes and shows metadata snapshots, which let jobs read without a control plane."
)


@app.adds("publish", shows=True)
def publish(
    place: JobPlace,
    keep: Annotated[
        str,
        option(
            help="How long the snapshot stays valid, at most 7d. Its objects are kept for the same time."
        ),
    ] = "24h",
    watch: Annotated[
        str | None,
        option(
            help="Publish repeatedly, with this pause between snapshots, such as 10m or 1h. Ctrl-C ends the command."
        ),
    ] = None,
) -> None:
    """Writes a snapshot of all topics' metadata to the bucket.

    Jobs with metadata=bucket then need no control plane, because they read the log as of the newest snapshot.
    """
    from lacuna.pipeline.control import JobClient
    from lacuna.pipeline.stores import check_store

    keep_ms = _keep_ms(keep)
    pause = parse_duration(watch, "--watch") if watch else 0.0
    location = locate(place)
    with JobClient(location.require_control()) as control:
        check_store(location.store, control.cluster_id)
        _publish(control, location.store, keep_ms)
        if pause:
            _publish_on(control, location.store, keep_ms, pause)


def _publish_on(control: JobClient, store: str, keep_ms: int, pause: float) -> None:
    while True:
        sleep(pause)
        try:
            _publish(control, store, keep_ms)
        except ControlPlaneUnavailable as error:
            print_error(str(error))  # the control plane may answer after the next pause


def _keep_ms(keep: str) -> int:
    """Parse --keep into milliseconds. Raises UserError for a duration that the control plane would reject."""
    keep_ms = int(parse_duration(keep, "--keep") * 1000)
    if keep_ms > LONGEST_PIN_MS:
        fail(
            f"--keep {keep} is too long: the maximum is {LONGEST_PIN_MS // _DAY_MS} days, because the objects of a "
            f"valid snapshot cannot be deleted; publish a new snapshot before it "
            "expires, for example with --watch 1d"
        )
    return max(keep_ms, 1)


def _publish(control: JobClient, store: str, keep_ms: int) -> None:
    from lacuna.pipeline.metadata.publish import publish_metadata
    from lacuna.pipeline.stores import shared_store

    done = publish_metadata(control, shared_store(store), keep_ms=keep_ms, now_ms=wall_clock_ms())
    valid_until = _time(done.name.valid_until_ms)
    print_done(
        f"published {show_count(done.partitions, 'partition')}, {show_size(done.bytes_written)}, valid until "
        f"{valid_until}; {show_count(done.removed, 'old snapshot')} removed",
        partitions=done.partitions,
        bytes=done.bytes_written,
        valid_until=valid_until,
        removed=done.removed,
    )
    print_collected()


@app.adds("show", shows=True)
def show(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    store: Store = None,
    encryption_keys: JobKeys = None,
) -> None:
    """Lists the snapshots in the bucket, and the topics in the newest valid snapshot. Needs no control plane."""
    from lacuna.pipeline.metadata.stored import StoredMetadata, published
    from lacuna.pipeline.stores import check_store, shared_store

    location = locate(
        JobPlace(bootstrap=bootstrap, data=data, store=store, encryption_keys=encryption_keys),
        needs_control=False,
    )
    cluster_id = check_store(location.store)
    table(
        ("published", "valid until"),
        (
            (_time(name.published_ms), _time(name.valid_until_ms))
            for name in published(shared_store(location.store), cluster_id)
        ),
        name="snapshots",
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
    table(("topic", "partition", "log start", "last stable"), rows, name="partitions")


def _time(milliseconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(milliseconds / 1000))
