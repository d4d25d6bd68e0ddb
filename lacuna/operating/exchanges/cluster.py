"""Requests about agents."""

from typing import Final

from lacuna.wire.messages import cluster

DESCRIBE_CLUSTER: Final = cluster.DESCRIBE_CLUSTER_REQUEST, cluster.DESCRIBE_CLUSTER_RESPONSE, 0
DESCRIBE_LOG_DIRS: Final = cluster.DESCRIBE_LOG_DIRS_REQUEST, cluster.DESCRIBE_LOG_DIRS_RESPONSE, 4
