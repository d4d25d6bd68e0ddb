"""The object stores that this process has open, by URL, shared by the tasks of a Python worker."""

import logging
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final

from lacuna.logstore.objects import (
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    open_store,
)
from lacuna.logstore.objects.url import folder_of, with_keys
from lacuna.logstore.segments import read_marker
from lacuna.logstore.segments.marker import check_marker
from lacuna.pipeline.errors import PipelineError

log = logging.getLogger("lacuna.pipeline")

_MAX_OPEN: Final = 8

_lock = threading.Lock()
_open: "OrderedDict[str, ObjectStore]" = OrderedDict()


def shared_store(url: str) -> ObjectStore:
    """Returns the store at `url`, opened on first use. Sends no request to it.

    Up to eight stores stay open; beyond that, the least recently used one is closed. If `url` names no encryption keys,
    the environment may provide them (`with_keys`). Raises StoreMisconfiguredError for an invalid URL, and PipelineError
    for a folder that does not exist.
    """
    with _lock:
        store = _open.pop(url, None) or _open_existing(url)
        _open[url] = store
        if len(_open) > _MAX_OPEN:
            _close(*_open.popitem(last=False))
        return store


def _open_existing(url: str) -> ObjectStore:
    """Opens a store. Raises PipelineError for a missing folder, which no job should create by opening it."""
    folder = folder_of(url)
    if folder is not None and not Path(folder).is_dir():
        raise PipelineError(
            f"the bucket {url} does not exist: there is no folder {folder} on this machine; check the "
            "name, and if Spark runs on several machines, mount it on each"
        )
    return open_store(with_keys(url))


def _close(url: str, store: ObjectStore) -> None:
    """Closes a store. A failure is only logged, since it does not affect the store that replaces this one."""
    try:
        store.close()
    except ObjectStoreError as error:
        log.warning("%s could not be closed: %s", url, error)


def check_store(url: str, cluster_id: str | None = None) -> str:
    """Checks that the store can be read and belongs to a cluster, and returns the cluster's id.

    Raises ForeignStoreError if it belongs to a cluster other than `cluster_id` (if given), and PipelineError if it
    cannot be read or belongs to no cluster.
    """
    try:
        marker = read_marker(shared_store(url))
    except ObjectStoreError as error:
        raise PipelineError(f"the bucket {url} cannot be read: {error}") from error
    if cluster_id is not None:
        check_marker(marker, cluster_id)
    if marker is None:
        raise PipelineError(
            f"there is no cluster in the bucket {url}: check the name and the prefix"
        )
    return marker.cluster_id


def has_object(store: ObjectStore, key: str) -> bool:
    with suppress(ObjectNotFoundError):
        store.size(key)
        return True
    return False
