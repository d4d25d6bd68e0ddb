"""The settings classes of the commands that keep running. `base/setting.py` describes their rows."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.setting import Setting, settings_of
from lacuna.cli.configuration import Configuration
from lacuna.cli.places import PLACES
from lacuna.controlplane.client import ControlTlsSettings
from lacuna.controlplane.runtime import RuntimeSettings
from lacuna.controlplane.service import ServiceSettings
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


def rows_of(kinds: Iterable[type[Any]]) -> Mapping[str, Setting]:
    """Return the rows of settings classes, by key."""
    return {row.key: row for kind in kinds for row in settings_of(kind).values()}


def service_settings(configuration: Configuration) -> ServiceSettings:
    """Return the settings of the control plane's service. Those of the state machine are made separately."""
    return ServiceSettings(
        runtime=configuration.make(RuntimeSettings),
        tls=configuration.make(ControlTlsSettings),
        authorizer=configuration.make(AuthorizerSettings),
    )


#: Every setting of every command, by key.
ROWS: Final = rows_of((*PLACES, *AGENT, *CONTROL_PLANE))
