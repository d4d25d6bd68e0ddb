"""Writes the tables of docs/protocol.md from what the code registers: `python docs/draw_protocol.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lacuna.agent.apis import discover
from lacuna.agent.registry import Registry
from lacuna.controlplane.shared.broker_configs import TUNING

PAGE: Final = Path(__file__).with_name("protocol.md")
KAFKA: Final = PAGE.parents[1] / "tests" / "golden" / "api_versions_kafka_4_4.json"
_CAPTURED: Final = json.loads(KAFKA.read_text(encoding="utf-8"))
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: An API that Kafka 4.4 serves and an agent does not → what to use instead, or why there is no need for it.
_SHARE: Final = (
    "brokers use these to store the state of share groups; in Lacuna, the control plane stores it"
)
_RAFT: Final = (
    "these change a Raft quorum; Lacuna's control planes share a journal, and do not vote"
)
_INSTEAD: Final[Mapping[str, str]] = {
    "InitializeShareGroupState": _SHARE,
    "ReadShareGroupState": _SHARE,
    "WriteShareGroupState": _SHARE,
    "DeleteShareGroupState": _SHARE,
    "ReadShareGroupStateSummary": _SHARE,
    "AddRaftVoter": _RAFT,
    "RemoveRaftVoter": _RAFT,
    "UnregisterController": _RAFT,
}
_NOT_YET: Final = "nothing yet"


def name_of(api_key: int) -> str:
    """Kafka's name of an API that it advertises, as "InitProducerId"."""
    return "".join(word.capitalize() for word in _CAPTURED["names"][str(api_key)].split("_"))


def page(registry: Registry | None = None) -> str:
    """The whole page with its tables drawn anew."""
    served = registry or discover()
    made = {
        "apis": "\n".join(_served_rows(served)),
        "instead": "\n".join(_missing_rows(served)),
        "tuning": ", ".join(f"`{name}`" for name in TUNING),
    }
    return _SECTION.sub(
        lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", PAGE.read_text(encoding="utf-8")
    )


def _served_rows(registry: Registry) -> Iterator[str]:
    yield "| key | API | advertised | notes |"
    yield "|---|---|---|---|"
    advertised = registry.advertised()
    for api in sorted(registry.apis(), key=lambda api: api.key):
        low, high = advertised.get(api.key, (0, -1))
        versions = f"{low}" if low == high else f"{low}\u2013{high}"
        versions = versions if api.key in advertised else "no"
        yield f"| {api.key} | {api.name} | {versions} | {api.notes} |".replace("|  |", "| |")


def _missing_rows(registry: Registry) -> Iterator[str]:
    """The APIs that Kafka 4.4 advertises and agents do not serve, one row for each reason."""
    kafka = _CAPTURED["versions"]["4"]["api_keys"]
    by_reason: dict[str, list[str]] = {}
    for key in sorted(map(int, kafka)):
        if key not in registry.advertised():
            name = name_of(key)
            by_reason.setdefault(_INSTEAD.get(name, _NOT_YET), []).append(name)
    yield "| APIs | reason, or alternative |"
    yield "|---|---|"
    for reason, names in by_reason.items():
        yield f"| {', '.join(names)} | {reason} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
