"""An in-memory bucket with network faults: requests that fail, lose their answers, or arrive late."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lacuna.logstore.objects import MemoryStore, StoreUnavailableError, VersionedObject


class BucketFault(Enum):
    """The fate of one request."""

    REFUSED = "nothing is done, as after a 409 or a 503"
    LOST_REPLY = "it is done and nobody hears of it"
    LATE = "it is done once `arrive` is called"


@dataclass(slots=True)
class _Scripted:
    operation: str
    prefix: str
    fault: BucketFault


class FaultyBucket(MemoryStore):
    """`fail` scripts a fault for the next request of a kind, and `choose`, if set, picks a fault for each request.

    `operation` is create, replace, load (an object or part of one), or delete.
    """

    def __init__(self) -> None:
        super().__init__()
        self.choose: Callable[[str, str], BucketFault | None] | None = None
        #: Called with each late request, a function that does it.
        self.on_late: Callable[[Callable[[], None]], None] | None = None
        #: Called before each request, with its operation and key.
        self.before: Callable[[str, str], None] | None = None
        self.requests: list[tuple[str, str]] = []
        self._scripted: list[_Scripted] = []
        self._late: list[Callable[[], None]] = []

    def fail(self, operation: str, fault: BucketFault, prefix: str = "", times: int = 1) -> None:
        """Make the next `times` requests of this kind fail."""
        self._scripted += [_Scripted(operation, prefix, fault)] * times

    def heal(self) -> None:
        """End all faults."""
        self._scripted.clear()
        self.choose = None

    @property
    def is_late(self) -> bool:
        """Return whether a request has not arrived yet."""
        return bool(self._late)

    def arrive(self) -> None:
        """Run the delayed requests."""
        late, self._late = self._late, []
        for request in late:
            request()

    def create(self, key: str, data: bytes) -> str:
        return self._do("create", key, lambda: super(FaultyBucket, self).create(key, data))

    def replace(self, key: str, data: bytes, etag: str) -> str:
        return self._do("replace", key, lambda: super(FaultyBucket, self).replace(key, data, etag))

    def load(self, key: str) -> VersionedObject:
        self._meet("load", key, None)
        return super().load(key)

    def get_all(self, key: str) -> bytearray:
        self._meet("load", key, None)
        return super().get_all(key)

    def get_up_to(self, key: str, position: int, size: int) -> bytearray:
        self._meet("load", key, None)
        return super().get_up_to(key, position, size)

    def _do(self, operation: str, key: str, request: Callable[[], str]) -> str:
        fault = self._meet(operation, key, request)
        etag = request()
        if fault is BucketFault.LOST_REPLY:
            raise StoreUnavailableError("the reply was lost")
        return etag

    def _meet(
        self, operation: str, key: str, request: Callable[[], str] | None
    ) -> BucketFault | None:
        self.requests.append((operation, key))
        if self.before is not None:
            self.before(operation, key)
        fault = self._next(operation, key)
        if fault is BucketFault.LATE and request is not None:
            self._delay(request)
        if fault in (BucketFault.LATE, BucketFault.REFUSED) or (fault and request is None):
            raise StoreUnavailableError("the request failed")
        return fault

    def _delay(self, request: Callable[[], str]) -> None:
        def arrive() -> None:
            try:
                request()
            except Exception:
                return  # nobody waits for the answer

        if self.on_late is not None:
            self.on_late(arrive)
        else:
            self._late.append(arrive)

    def _next(self, operation: str, key: str) -> BucketFault | None:
        for scripted in self._scripted:
            if scripted.operation == operation and key.startswith(scripted.prefix):
                self._scripted.remove(scripted)
                return scripted.fault
        return None if self.choose is None else self.choose(operation, key)
