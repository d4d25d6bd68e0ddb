"""The changes of a request to topics, for their quota (KIP-599)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from lacuna.controlplane.client import ClusterView

#: Partitions that are created or deleted, by the name of the topic, or by its id if the request names it so.
Sizes: TypeAlias = Mapping[str | bytes, int]


@dataclass(frozen=True, slots=True)
class Mutation:
    """How the requests of an API change topics.

    - `first_strict`: the first version that is refused rather than delayed while its client owes.
    - `sizes` returns what a request would change, and `results` names the field of the answer with the results.
    - `creates`: a new topic has as many partitions as the cluster says, if the request leaves it to the default.
    """

    first_strict: int
    sizes: Callable[[ClusterView, Any], Sizes]
    results: str
    creates: bool = False
