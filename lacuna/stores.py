"""From what an operator names to an object store that can be used."""

from pathlib import Path
from urllib.parse import quote, urlencode

from logstore.objects import ObjectStore, StoreMisconfiguredError, open_store


def bucket_url(bucket: str, endpoint: str | None) -> str:
    """The URL of BUCKET or BUCKET/PREFIX at an S3 service."""
    query = f"?{urlencode({'endpoint': endpoint})}" if endpoint else ""
    return f"s3://{quote(bucket.removeprefix('s3://'))}{query}"


def folder_url(folder: Path) -> str:
    """The URL of a folder."""
    return f"file://{quote(str(folder.resolve()))}"


def open_checked(url: str, *, create_bucket: bool = False) -> ObjectStore:
    """Opens a store and makes sure that it can be used. Raises ObjectStoreError with what to do."""
    store = open_store(url)
    try:
        if create_bucket:
            make = getattr(store, "create_bucket", None)
            if make is None:
                raise StoreMisconfiguredError(f"{url} is no bucket: leave --create-bucket out")
            make()
        store.check()
    except BaseException:
        store.close()
        raise
    return store
