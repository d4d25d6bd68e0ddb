"""Collects objects as an agent does."""

from lacuna.controlplane.v1.log_pb2 import CollectionPlan, ConfirmCollection, PlanCollection
from tests.controlplane.verbs.cluster import Cluster


def collection(cluster: Cluster, max_segments: int = 100) -> CollectionPlan:
    command = PlanCollection(lease_id=cluster.lease_id, max_segments=max_segments)
    plan: CollectionPlan = cluster.do("plan_collection", command)
    assert plan.error_code == 0
    return plan


def collect(cluster: Cluster) -> list[int]:
    plan = collection(cluster)
    command = ConfirmCollection(segments=plan.segments, swept_lease_ids=plan.swept_lease_ids)
    assert cluster.do("confirm_collection", command).error_code == 0
    return [segment.sequence for segment in plan.segments]
