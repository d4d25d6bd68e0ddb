"""How APIs change topics, for the quota on such changes (KIP-599)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from lacuna.controlplane.client import ClusterView

#: The number of partitions that are created or deleted, by the topic's name, or by its id if the request names the
#: topic by id.
Sizes: TypeAlias = Mapping[str | bytes, int]


@dataclass(frozen=True, slots=True)
class Mutation:
    """How the requests of an API change topics.

    - `first_strict`: the first version in which a request over the quota is refused rather than delayed.
    - `sizes` returns what a request would change, and `results` names the answer's field that contains the results.
    - `creates`: whether the API creates topics. If a request does not set the partition count of a topic, the cluster's
      default applies.
    """

    first_strict: int
    sizes: Callable[[ClusterView, Any], Sizes]
    results: str
    creates: bool = False
