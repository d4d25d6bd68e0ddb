"""Holds the replies and deltas of a runtime until the journal makes them durable, and then delivers them (S2)."""

from collections import deque
from collections.abc import Callable, Iterable

from lacuna.controlplane.appending import Appender
from lacuna.controlplane.session import Held


class Deliveries:
    """The deliveries that wait for the journal, in the order of the decisions. `failed` receives a receiver's error."""

    def __init__(self, appender: Appender, failed: Callable[[BaseException], None]) -> None:
        self._appender = appender
        self._on_failed = failed
        self._held: deque[Held] = deque()
        self._is_releasing = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, held: Iterable[Held]) -> None:
        """Hold deliveries until the journal is durable up to their positions and has given their proofs."""
        self._held.extend(held)
        self.release()

    def release(self) -> None:
        """Deliver what has become durable, in order.

        A receiver may call back into the runtime, so nested calls do nothing.
        """
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._held and self._is_due(self._held[0]):
                item = self._held.popleft()
                if not item.session.is_closed:
                    item.session.receiver.deliver(
                        item.partitions, item.cluster, item.replies, self._appender.durable
                    )
        except Exception as error:
            self._on_failed(error)
        finally:
            self._is_releasing = False

    def _is_due(self, held: Held) -> bool:
        return held.position <= self._appender.durable and held.proof <= self._appender.proofs

    def clear(self) -> None:
        self._held.clear()
