"""The verbs of groups and committed offsets (S26), which behave as in Kafka 4.4.

`consumer` implements the groups of KIP-848, and the `share_*` and `streams_*` modules implement share and streams
groups; the rest is for classic groups, or for groups of several kinds. Offsets and generations are durable. A
generation is journalled when the leader's assignment arrives, when a static member of a stable group is replaced, and
when a group becomes empty. Pending joins, waiting members and deadlines are volatile
(`lacuna.controlplane.state.groups.live`).
"""
