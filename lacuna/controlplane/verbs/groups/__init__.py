"""Verbs of groups and committed offsets (S26), which behave as in Kafka 4.1.

`consumer` has the consumer groups of KIP-848; the rest is about classic groups and what both kinds share. Offsets and
generations are durable. A generation is journalled when the leader's assignment arrives, when a static member is
replaced in a stable group, and when a group becomes empty. Which members are joining or waiting for an answer, and all
deadlines, are volatile (`lacuna.controlplane.state.groups.live`).
"""
