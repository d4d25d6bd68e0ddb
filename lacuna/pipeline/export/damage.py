"""Damage that `lacuna verify` has confirmed, and the data that a run leaves out for that reason."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lacuna.pipeline.errors import PipelineError


class Hit(NamedTuple):
    """The offsets [first, end) of a partition that a finding of `kind` affects."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The offsets [first, end) in an object that a run left out. `kind` is the damage reported by `lacuna verify`."""

    partition: int
    first_offset: int
    end_offset: int
    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class ConfirmedDamage:
    """The offsets that a `lacuna verify` report lists as damaged, by object key."""

    cluster_id: str
    hits: Mapping[str, tuple[Hit, ...]]

    @classmethod
    def of_report(cls, path: Path) -> "ConfirmedDamage":
        """Reads a report. Raises PipelineError if the file cannot be read or is not a report."""
        try:
            report = json.loads(path.read_text())
            found: dict[str, tuple[Hit, ...]] = {}
            for finding in report["findings"]:
                if finding["key"] and not finding["is_note"]:
                    key = finding["key"]
                    found[key] = (*found.get(key, ()), *_hits_of(finding))
            return cls(report["cluster_id"], found)
        except OSError as error:
            raise PipelineError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(
                f"{path} is not a JSON report from `lacuna verify`: create one with its --json option"
            ) from error

    def kind_of(self, key: str, topic: str, partition: int, first: int, end: int) -> str | None:
        """Returns the kind of damage that the report lists for the offsets [first, end) in an object, or None."""
        hits = sorted(
            hit
            for hit in self.hits.get(key, ())
            if (hit.topic, hit.partition) == (topic, partition)
        )
        reached = first
        for hit in hits:
            if hit.first_offset <= reached < hit.end_offset:
                reached = hit.end_offset
                if reached >= end:
                    return hit.kind
        return None


def _hits_of(finding: Mapping[str, Any]) -> Iterable[Hit]:
    for hit in finding["hits"]:
        yield Hit(
            hit["topic"],
            hit["partition"],
            hit["first_offset"],
            hit["end_offset"],
            finding["kind"],
        )
