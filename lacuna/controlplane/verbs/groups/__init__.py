"""Verbs of groups and committed offsets (S26), which behave as in Kafka 4.4.

`consumer` has the consumer groups of KIP-848. The other modules handle classic groups, and contain the code that both
kinds share. Offsets and generations are durable. A generation is journalled when the leader's assignment arrives, when
a static member is replaced in a stable group, and when a group becomes empty. Pending joins, waiting members and all
deadlines are volatile (`lacuna.controlplane.state.groups.live`).
"""
