"""Opens the destination that a URL or a folder names."""

from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.errors import DestinationError
from lacuna.pipeline.export.folder import FolderDestination

FORMS = "a folder, file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=NAME"


@lru_cache(maxsize=8)
def open_destination(url: str) -> Destination:
    """The destination that `url`, in one of the `FORMS`, names; a process uses the same object for the same URL.

    S3 credentials come from the environment. Does not access the destination. Raises DestinationError for other forms.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3" and parts.netloc:
        return BucketDestination(url)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return _folder(Path(unquote(parts.path)))
    if url and "://" not in url:
        return _folder(Path(url))
    raise DestinationError(f"{url!r} is not a destination: write {FORMS}")


def _folder(path: Path) -> Destination:
    return FolderDestination(path.resolve())
