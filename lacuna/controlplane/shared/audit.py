"""The log of denied requests, one line each, in the format of Kafka's `kafka.authorizer.logger`.

A client may repeat a request many times a second, or vary it. So no line is repeated within a minute, and the number of
lines per minute is limited.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lacuna.controlplane.shared.acls import Operation, PatternType, ResourceType
from lacuna.controlplane.shared.complaints import Complaints
from lacuna.controlplane.shared.config_values import printable, shorten

if TYPE_CHECKING:
    from lacuna.controlplane.shared.authorizer import Authorizer
    from lacuna.controlplane.shared.principal import Principal

log = logging.getLogger("lacuna.authorizer")

_WINDOW_SECONDS: Final = 60.0
_MOST_LINES: Final = 1000


class Audit:
    """Writes the log of one process. `clock` returns seconds; `count` is called for each denial, whether logged or
    not.
    """

    def __init__(
        self,
        authorizer: "Authorizer",
        clock: Callable[[], float],
        count: Callable[[], None] = lambda: None,
    ) -> None:
        self._authorizer = authorizer
        self._count = count
        self._clock = clock
        self._said = Complaints()
        self._began = 0.0
        self._lines = 0
        self._kept_back = 0

    def denied(
        self,
        principal: "Principal",
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        api: str,
    ) -> None:
        self._count()
        now = self._clock()
        asked = f"{principal} {operation} {resource_type} {shorten(name)}"
        if not log.isEnabledFor(logging.INFO) or not self._said.is_new(host, asked, now):
            return
        if now - self._began >= _WINDOW_SECONDS:
            if self._kept_back:
                log.info("%d more denials were not logged in the last minute", self._kept_back)
            self._began, self._lines, self._kept_back = now, 0, 0
        if self._lines >= _MOST_LINES:
            self._kept_back += 1
            return
        self._lines += 1
        log.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:%s:%s for request = %s "
            "based on rule %s",
            printable(str(principal)),
            Operation(operation).name,
            host,
            _type_name(resource_type),
            PatternType.LITERAL.name,
            printable(name),
            api,
            printable(self._authorizer.rule(principal, host, operation, resource_type, name)),
        )


def _type_name(resource_type: int) -> str:
    return "".join(word.capitalize() for word in ResourceType(resource_type).name.split("_"))
