"""Options as Spark hands them over: text by name, whatever the case of the name."""

import json
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pipeline.errors import PipelineError
from pipeline.location import ClusterLocation, find_cluster

#: Who names a cluster, in reading and in writing.
LOCATION_OPTIONS: Final = ("data", "control", "store")
#: What Spark itself adds for its own use.
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname"})
#: What Spark adds of a table of its catalog. Of such a table's own options it hands over copies with this
#: prefix when the table is made, and nothing when it is read or written.
_OF_TABLE: Final = "option."
_PROVIDER: Final = "provider"
_TABLES_LOSE_OPTIONS: Final = (
    "a table of CREATE TABLE cannot be used, as Spark does not hand its options on to a data source in "
    "Python: say CREATE TEMPORARY VIEW NAME USING lacuna OPTIONS (...)"
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"([0-9]{1,12})\s*([a-z]*)")
#: As the JVM and the control plane hold it.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

#: What to do instead of an option of Spark's Kafka source and sink that has no meaning here. A name that
#: ends in a dot stands for all that begin so; the first that fits counts.
_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "no broker is asked, the bucket is read itself: name the cluster with "
    "data=FOLDER of a running `lacuna up`, or with control=HOST:PORT and store=URL",
    "kafka.isolation.level": "say isolation=read_committed or isolation=read_uncommitted",
    "kafka.auto.offset.reset": "say startingOffsets=earliest or startingOffsets=latest",
    "kafka.group.id": "there is no consumer group, Spark keeps the offsets: leave it out",
    "kafka.transactional.id": "the sink makes its own: leave it out",
    "kafka.": "it configures a Kafka client and there is none: leave it out",
    "groupidprefix": "there is no consumer group, Spark keeps the offsets: leave it out",
    "kafkaconsumer.": "there is no consumer to configure: leave it out",
    "fetchoffset.": "the control plane's client retries by itself: leave it out",
}


class OptionError(PipelineError):
    """An option that does not fit; the message names it and says what would."""


class Options:
    """Read access with checks. Every method raises OptionError for a value that does not fit."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        """The value without the spaces around it, None where it was not given."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        """`true` or `false`."""
        return self.one_of(name, ("true", "false"), str(default).lower()) == "true"

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """One of the choices, in lower case."""
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(f"option {name}={value}: it is one of {', '.join(choices)}")
        return value

    def integer(self, name: str, minimum: int = 1) -> int | None:
        """A whole number, at least `minimum`."""
        value = self.text(name)
        if value is None:
            return None
        if not _WHOLE_NUMBER.fullmatch(value):
            raise OptionError(f"option {name}={value}: it is a whole number, of 18 digits at most")
        number = int(value)
        if number < minimum:
            raise OptionError(f"option {name}={value}: it is at least {minimum}")
        return number

    def seconds(self, name: str, default: float) -> float:
        """A duration as Spark writes it: 500ms, 30s, 15m, 1h, 2d; seconds without a unit."""
        value = self.text(name)
        if value is None:
            return default
        found = _DURATION.fullmatch(value.lower())
        if found is None or found[2] not in _UNITS:
            raise OptionError(f"option {name}={value}: it is a duration such as 30s, 15m or 1h")
        return int(found[1]) * _UNITS[found[2]]

    def json(self, name: str) -> Any:
        """A JSON value, None where it was not given."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise OptionError(f"option {name}={value}: it is no JSON: {error}") from None

    def check_names(self, known: Collection[str], hints: Mapping[str, str] | None = None) -> None:
        """Raises OptionError where an option was given that is none of `known`, and not Spark's own.

        `hints` says of further names what to do instead. All such options are in one message.
        """
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
        """The cluster that `data`, `control` and `store` name, each else taken from the environment."""
        data, control, store = (self.text(name) for name in LOCATION_OPTIONS)
        try:
            return find_cluster(
                data=data,
                control=control,
                store=store,
                needs_control=needs_control,
                environment=os.environ,
            )
        except PipelineError as error:
            raise PipelineError(f"{error}{self.where_none()}") from None

    def where_none(self) -> str:
        """The end of a message that misses an option, where none at all was given: it may have got lost."""
        return "" if self._given else f". In SQL, {_TABLES_LOSE_OPTIONS}"


def _hint_of(name: str, instead: Mapping[str, str]) -> str:
    for known, hint in instead.items():
        if name == known or (known.endswith(".") and name.startswith(known)):
            return hint
    return "there is no such option"
