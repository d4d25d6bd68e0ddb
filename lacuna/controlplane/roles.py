"""What sessions may do that are neither an agent's nor a control plane's: read metadata, and run jobs.

What is kept from them is what lets one act as an agent or as a user: the secret of agents, credentials and delegation
tokens, and the verbs that administer the cluster or serve clients. Of topics, ACLs decide if the control plane has an
authorizer (`rights`); without one, whoever may run a job may change any record.
"""

from collections.abc import Sequence
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply

#: What compaction, exports, Spark's source and sink, verify, explain and the console ask for.
OF_JOBS: Final = frozenset(
    {
        "add_offsets_to_txn",
        "add_partitions_to_txn",
        "commit_segment",
        "describe_cluster",
        "describe_consumer_groups",
        "describe_group_configs",
        "describe_groups",
        "describe_leases",
        "describe_merges",
        "describe_producers",
        "describe_transactions",
        "end_txn",
        "filter_uncommitted",
        "init_producer_id",
        "list_groups",
        "list_transactions",
        "offset_fetch",
        "open_lease",
        "pin_reads",
        "plan_compaction",
        "read_as_of",
        "read_histories",
        "read_partitions",
        "release_lease",
        "renew_lease",
        "swap_extents",
        "txn_offset_commit",
        "unpin_reads",
    }
)


def refusals(commands: Sequence[Command]) -> list[Reply]:
    """Return the replies to those commands that are not for jobs."""
    return [
        Reply(
            command_id=command.command_id,
            failure=Failure(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                message=f"only agents and control planes may {str(verb).replace('_', ' ')}: "
                "controlplane.cluster.principals does not name the certificate of this process",
            ),
        )
        for command in commands
        if (verb := command.WhichOneof("verb")) not in OF_JOBS
    ]
