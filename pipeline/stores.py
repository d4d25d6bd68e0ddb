"""Open object stores of this process, by URL: tasks of one Python worker share them."""

import logging
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from logstore.objects import ObjectStore, ObjectStoreError, open_store
from logstore.segments import read_marker
from logstore.segments.marker import check_marker
from pipeline.errors import PipelineError

log = logging.getLogger("lacuna.pipeline")

_MAX_OPEN: Final = 8

_lock = threading.Lock()
_open: "OrderedDict[str, ObjectStore]" = OrderedDict()


def shared_store(url: str) -> ObjectStore:
    """The store at `url`, opened at the first use; the least recently used beyond eight is closed.

    Raises StoreMisconfiguredError for a URL that names none, PipelineError for a folder that is not there.
    Nothing is asked of it yet.
    """
    with _lock:
        store = _open.pop(url, None) or _open_existing(url)
        _open[url] = store
        if len(_open) > _MAX_OPEN:
            _close(*_open.popitem(last=False))
        return store


def _open_existing(url: str) -> ObjectStore:
    """A job never makes a cluster's folder: opening one that is not there would."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not (folder := Path(unquote(parts.path))).is_dir():
        raise PipelineError(
            f"the bucket {url} is not there: no folder is called {folder} on this machine; check the "
            "name, and where Spark runs on several machines, mount it on each"
        )
    return open_store(url)


def _close(url: str, store: ObjectStore) -> None:
    """One that cannot be closed, since its folder is gone, is no failure of the one that is opened."""
    try:
        store.close()
    except ObjectStoreError as error:
        log.warning("%s was not closed: %s", url, error)


def check_store(url: str, cluster_id: str | None = None) -> str:
    """Makes sure that the store can be read and is a cluster's; that cluster's id.

    With `cluster_id` it must be that one's. Raises PipelineError, ForeignStoreError.
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
