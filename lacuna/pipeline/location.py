"""Determines a cluster's control plane and bucket from the user's options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lacuna.base.data_folder import ADDRESS_NAME, STORE_NAME, left, not_running
from lacuna.controlplane.client import ControlPlace, control_tls_settings
from lacuna.logstore.objects import StoreMisconfiguredError, check_url, folder_url
from lacuna.logstore.objects.kind import KEYS_OPTION
from lacuna.logstore.objects.url import SHARED_FORMS, keys_option, with_options
from lacuna.pipeline.errors import PipelineError

DATA_VARIABLE: Final = "LACUNA_DATA"
CONTROL_VARIABLE: Final = "LACUNA_CONTROL"
STORE_VARIABLE: Final = "LACUNA_STORE"

_OBJECTS_NAME: Final = "objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLocation:
    """The URL of a cluster's bucket (see lacuna.logstore.objects.url), and its control plane, if one was given."""

    store: str
    control: ControlPlace | None

    def require_control(self) -> ControlPlace:
        """Returns the control plane. Raises PipelineError if none was given."""
        if self.control is None:
            raise PipelineError(
                "this needs the control plane: specify its address with control=HOST:PORT (--control), or "
                "the data folder of a running `lacuna up` with data=FOLDER (--data)"
            )
        return self.control


def find_cluster(
    *,
    data: str | None = None,
    control: str | None = None,
    store: str | None = None,
    keys: str | None = None,
    tls: Mapping[str, str | None] = MappingProxyType({}),
    needs_control: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> ClusterLocation:
    """Returns the cluster that the options specify. Environment variables stand in for missing options.

    `data` is the data folder of a running `lacuna up`, from which the control plane and bucket are read. It overrides
    LACUNA_CONTROL and LACUNA_STORE, while `control` and `store` override LACUNA_DATA. `keys` is the path of the
    cluster's key file, and replaces the path in the URL. `tls` contains ControlTlsSettings by key. Raises PipelineError
    if a value is missing, or if `store` is not a valid URL.
    """
    data = data or (None if control or store else environment.get(DATA_VARIABLE))
    control = control or (None if data else environment.get(CONTROL_VARIABLE))
    store = store or (None if data else environment.get(STORE_VARIABLE))
    if store:
        _check_store_url(store)
    if data:
        folder = Path(data).resolve()
        if not folder.is_dir():
            raise PipelineError(
                f"there is no folder {data}: check the path, or start a cluster there with `lacuna up --data {data}`"
            )
        control = control or left(folder, ADDRESS_NAME)
        store = store or left(folder, STORE_NAME) or _objects_url(folder)
        if not control and needs_control:
            raise PipelineError(not_running(data))
    if store is None:
        raise PipelineError(
            "no bucket is specified: provide the data folder of a running `lacuna up` (data=FOLDER, "
            f"--data), or the URL of the bucket (store=URL, --store: {SHARED_FORMS})"
        )
    if keys:
        store = with_options(store, **{KEYS_OPTION: keys_option(keys, "")})
    place = ControlPlace(control, control_tls_settings(tls, environment)) if control else None
    location = ClusterLocation(store=store, control=place)
    if needs_control:
        location.require_control()
    return location


def _check_store_url(url: str) -> None:
    try:
        check_url(url)
    except StoreMisconfiguredError as error:
        raise PipelineError(str(error)) from error


def _objects_url(folder: Path) -> str | None:
    objects = folder / _OBJECTS_NAME
    return folder_url(objects) if objects.is_dir() else None
