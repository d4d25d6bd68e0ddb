"""Where a cluster is: its control plane and its bucket, from what a user names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pipeline.errors import PipelineError

DATA_VARIABLE: Final = "LACUNA_DATA"
CONTROL_VARIABLE: Final = "LACUNA_CONTROL"
STORE_VARIABLE: Final = "LACUNA_STORE"

#: What a running `lacuna up` leaves in its data folder.
_ADDRESS_NAME: Final = "control.address"
_STORE_NAME: Final = "store.url"
_OBJECTS_NAME: Final = "objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLocation:
    """`store` is the bucket's URL (logstore.objects.url), `control` the control plane's address,
    HOST:PORT or unix:PATH, None where metadata is to come from the bucket.
    """

    store: str
    control: str | None

    def require_control(self) -> str:
        """The control plane's address. Raises PipelineError where none was named."""
        if self.control is None:
            raise PipelineError(
                "this needs the control plane: name it with control=HOST:PORT (--control), or the "
                "data folder of a running `lacuna up` with data=FOLDER (--data)"
            )
        return self.control


def find_cluster(
    *,
    data: str | None = None,
    control: str | None = None,
    store: str | None = None,
    needs_control: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> ClusterLocation:
    """The cluster that the options name, each else taken from the environment.

    `data` is the folder of a running `lacuna up`, which knows the other two. Raises PipelineError.
    """
    data = data or (None if control or store else environment.get(DATA_VARIABLE))
    control = control or (None if data else environment.get(CONTROL_VARIABLE))
    store = store or (None if data else environment.get(STORE_VARIABLE))
    if data:
        folder = Path(data).resolve()
        control = control or _read(folder / _ADDRESS_NAME)
        store = store or _read(folder / _STORE_NAME) or _objects_url(folder)
        if control is None and needs_control:
            raise PipelineError(
                f"no cluster runs on the data folder {data}: start it with `lacuna up --data "
                f"{data}`, or name a control plane"
            )
    if store is None:
        raise PipelineError(
            "no bucket was named: give the data folder of a running `lacuna up` (data=FOLDER, "
            "--data), or the bucket's URL (store=s3://BUCKET/PREFIX or file:///FOLDER, --store)"
        )
    location = ClusterLocation(store=store, control=control)
    if needs_control:
        location.require_control()
    return location


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _objects_url(folder: Path) -> str | None:
    objects = folder / _OBJECTS_NAME
    return f"file://{quote(str(objects))}" if objects.is_dir() else None
