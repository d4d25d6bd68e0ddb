"""Parses the options that Spark passes as strings. Option names are not case-sensitive."""

import json
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from lacuna.controlplane.client import past_time_of
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.location import ClusterLocation, find_cluster

#: The options that name a cluster, for reading and for writing.
LOCATION_OPTIONS: Final = (
    "data",
    "control",
    "store",
    "encryptionKeys",
    "controlplane.ssl.certificate.location",
    "controlplane.ssl.key.location",
    "controlplane.ssl.key.password",
    "controlplane.ssl.ca.location",
    "controlplane.cluster.principals",
)
#: Options that Spark adds for its own use.
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname"})
#: The prefix of the options of a table in Spark's catalog. Spark passes copies of them with this prefix when the table
#: is created, but none when it is read or written.
_OF_TABLE: Final = "option."
_PROVIDER: Final = "provider"
_TABLES_LOSE_OPTIONS: Final = (
    "a table created with CREATE TABLE cannot be used, because Spark does not pass its options to a "
    "Python data source: use CREATE TEMPORARY VIEW NAME USING lacuna OPTIONS (...)"
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"([0-9]{1,12})\s*([a-z]*)")
#: At most 18 digits, to fit into 64 bits in the JVM and the control plane.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

#: The alternative to an option of Spark's Kafka source and sink that has no meaning here. A name that ends in a dot
#: stands for all names with that prefix; the first match applies.
_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "Lacuna reads the bucket directly, without brokers: specify the cluster with "
    "data=FOLDER of a running `lacuna up`, or with control=HOST:PORT and store=URL",
    "kafka.isolation.level": "use isolation=read_committed or isolation=read_uncommitted",
    "kafka.auto.offset.reset": "use startingOffsets=earliest or startingOffsets=latest",
    "kafka.group.id": "there is no consumer group, because Spark keeps the offsets: leave it out",
    "kafka.transactional.id": "the sink sets its own: leave it out",
    "kafka.": "it configures a Kafka client, which Lacuna does not use: leave it out",
    "groupidprefix": "there is no consumer group, because Spark keeps the offsets: leave it out",
    "kafkaconsumer.": "there is no consumer to configure: leave it out",
    "fetchoffset.": "the control plane's client retries by itself: leave it out",
}


class OptionError(PipelineError):
    """An option is invalid. The message names it, and says which values are valid."""


class Options:
    """Parses and checks options. Every method raises OptionError for an invalid value."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        """Returns the value without surrounding spaces, or None if the option is not set."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false"), str(default).lower()) == "true"

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(f"option {name}={value}: choose one of {', '.join(choices)}")
        return value

    def integer(self, name: str, minimum: int = 1) -> int | None:
        """Returns an integer of at least `minimum`, or None if the option is not set."""
        value = self.text(name)
        if value is None:
            return None
        if not _WHOLE_NUMBER.fullmatch(value):
            raise OptionError(f"option {name}={value}: specify an integer of up to 18 digits")
        number = int(value)
        if number < minimum:
            raise OptionError(f"option {name}={value}: the minimum is {minimum}")
        return number

    def seconds(self, name: str, default: float) -> float:
        """Parses a duration as in Spark: 500ms, 30s, 15m, 1h or 2d. The default unit is seconds."""
        value = self.text(name)
        if value is None:
            return default
        found = _DURATION.fullmatch(value.lower())
        if found is None or found[2] not in _UNITS:
            raise OptionError(f"option {name}={value}: specify a duration such as 30s, 15m or 1h")
        return int(found[1]) * _UNITS[found[2]]

    def past_ms(self, name: str) -> int | None:
        """Returns a past time in milliseconds since 1970, or None if the option is not set."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return past_time_of(value, wall_clock_ms())
        except ValueError as error:
            raise OptionError(f"option {name}={value}: {error}") from None

    def json(self, name: str) -> Any:
        value = self.text(name)
        if value is None:
            return None
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise OptionError(f"option {name}={value}: not valid JSON: {error}") from None

    def check_names(self, known: Collection[str], hints: Mapping[str, str] | None = None) -> None:
        """Raises OptionError for options that are neither `known` nor Spark's own. `hints` suggests alternatives."""
        if _PROVIDER in self._given or any(name.startswith(_OF_TABLE) for name in self._given):
            raise OptionError(_TABLES_LOSE_OPTIONS)
        allowed = {name.lower() for name in known}
        instead = {**{name.lower(): text for name, text in (hints or {}).items()}, **_OF_KAFKA}
        wrong = [
            f"option {name}: {_hint_of(name, instead)}"
            for name in sorted(self._given)
            if name not in allowed and name not in _OF_SPARK and not name.startswith("__")
        ]
        if any("there is no such option" in text for text in wrong):
            wrong.append(f"the options are {', '.join(sorted(known))}")
        if wrong:
            raise OptionError("; ".join(wrong))

    def location(self, *, needs_control: bool) -> ClusterLocation:
        """Returns the cluster that `LOCATION_OPTIONS` or environment variables specify. Raises PipelineError."""
        data, control, store, keys, *_ = (self.text(name) for name in LOCATION_OPTIONS)
        try:
            return find_cluster(
                data=data,
                control=control,
                store=store,
                keys=keys,
                tls={name: self.text(name) for name in LOCATION_OPTIONS[4:]},
                needs_control=needs_control,
                environment=os.environ,
            )
        except PipelineError as error:
            raise PipelineError(f"{error}{self.where_none()}") from None

    def where_none(self) -> str:
        """Returns a hint for errors about missing options if Spark seems to have lost all options, and otherwise ""."""
        return "" if self._given else f". In SQL, {_TABLES_LOSE_OPTIONS}"


def _hint_of(name: str, instead: Mapping[str, str]) -> str:
    for known, hint in instead.items():
        if name == known or (known.endswith(".") and name.startswith(known)):
            return hint
    return "there is no such option"
