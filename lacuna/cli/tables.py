"""The settings of each command that keeps running, by key. Their rows are in the settings classes (base/setting.py)."""

from collections.abc import Mapping
from typing import Final

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.setting import Setting, settings_of
from lacuna.controlplane.client import ControlTlsSettings
from lacuna.controlplane.runtime import RuntimeSettings
from lacuna.controlplane.shared.authorizing import AuthorizerSettings
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings

AGENT: Final = (
    AgentSettings,
    SecuritySettings,
    FetchSettings,
    ProduceSettings,
    HousekeepingSettings,
    MergeSettings,
    ControlTlsSettings,
)
CONTROL_PLANE: Final = (
    GroupSettings,
    ProducerSettings,
    RuntimeSettings,
    ControlTlsSettings,
    AuthorizerSettings,
)

TABLES: Final[Mapping[str, Mapping[str, Setting]]] = {
    command: {row.key: row for kind in kinds for row in settings_of(kind).values()}
    for command, kinds in {
        "up": AGENT + CONTROL_PLANE,
        "agent": AGENT,
        "controlplane": CONTROL_PLANE,
    }.items()
}
