"""From a URL or a folder to the destination that it names."""

from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline.export.bucket import BucketDestination
from pipeline.export.destination import Destination
from pipeline.export.errors import DestinationError
from pipeline.export.folder import FolderDestination

FORMS = "a folder, file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=NAME"


@lru_cache(maxsize=8)
def open_destination(url: str) -> Destination:
    """The destination that `url`, one of `FORMS`, names; one for all of a process.

    Credentials of S3 come from the environment. Nothing is asked of it yet. Raises DestinationError.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3" and parts.netloc:
        return BucketDestination(url)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return _folder(Path(unquote(parts.path)))
    if url and "://" not in url:
        return _folder(Path(url))
    raise DestinationError(f"{url!r} names no place to export to: write {FORMS}")


def _folder(path: Path) -> Destination:
    return FolderDestination(path.resolve())
