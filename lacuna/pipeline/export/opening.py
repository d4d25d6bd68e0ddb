from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from lacuna.logstore.objects.kind import KEYS_OPTION
from lacuna.logstore.objects.url import EXPORT_FORMS, KINDS
from lacuna.pipeline.errors import DestinationError
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.folder import FolderDestination


@lru_cache(maxsize=8)
def open_destination(url: str) -> Destination:
    """Returns the destination at `url`: one of the `EXPORT_FORMS`, or the path of a folder. Does not access it.

    Each process has one object per URL. Credentials come from the environment. Raises DestinationError for other forms.
    """
    if url and "://" not in url:
        return FolderDestination(Path(url).resolve())
    parts = urlsplit(url)
    kind = KINDS.get(parts.scheme)
    if kind is None or not kind.takes_exports or not kind.is_store(parts):
        raise DestinationError(
            f"{url!r} is not a destination: specify a folder, or one of {EXPORT_FORMS}"
        )
    encrypting = {*kind.encrypting, KEYS_OPTION} & dict(parse_qsl(parts.query)).keys()
    if encrypting:
        raise DestinationError(
            f"{url}: exported files are for other programs, so Lacuna does not encrypt them: omit "
            f"{' and '.join(sorted(encrypting))}, and set the bucket's default encryption"
        )
    if kind.folder is not None:
        return FolderDestination(Path(kind.folder(parts)).resolve())
    return BucketDestination(url)
