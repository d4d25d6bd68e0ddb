"""Answers tools' questions: where the cluster's parts are, and whether its object store responds."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.client import ControlPlace
from lacuna.controlplane.v1.control_pb2 import Places, StoreProbe
from lacuna.logstore.objects import ObjectStore, ObjectStoreError

#: How long each part of the cluster may take to respond.
PART_SECONDS: Final = 2.0
_PROBE: Final = b"lacuna"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The locations of an agent's control plane and store, as given by its options. Unknown locations are empty."""

    control: ControlPlace | None = None
    store: str = ""

    def message(self) -> Places:
        """Return these locations as a message for jobs. A store's URL contains no secrets, but may name local files."""
        place = self.control
        return Places(
            control="" if place is None else place.address,
            store=self.store,
            has_control_tls=place is not None and place.tls.is_given,
        )


NOT_KNOWN: Final = Whereabouts()


class Asking:
    """Answers tools' questions about the agent's control plane and store."""

    def __init__(self, whereabouts: Whereabouts = NOT_KNOWN) -> None:
        self.whereabouts = whereabouts
        self._probing: asyncio.Future[StoreProbe] | None = None

    async def probe(self, store: ObjectStore, key: str) -> StoreProbe:
        """Write, read and delete the object `key` as a test of the store. Concurrent callers share one test."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.ensure_future(asyncio.to_thread(_probe, store, key))
        try:
            async with asyncio.timeout(PART_SECONDS):
                return await asyncio.shield(self._probing)
        except TimeoutError:
            return StoreProbe(problem=f"it did not answer within {PART_SECONDS:g} s")


def _probe(store: ObjectStore, key: str) -> StoreProbe:
    try:
        store.delete([key])
        begin = time.monotonic()
        store.put(key, [_PROBE])
        put = time.monotonic()
        store.get(key, 0, len(_PROBE))
        got = time.monotonic()
        store.delete([key])
    except ObjectStoreError as error:
        return StoreProbe(problem=str(error))
    return StoreProbe(put_seconds=put - begin, get_seconds=got - put)
