"""Consumer groups of KIP-848: the coordinator assigns partitions, and each member moves to its target independently
(S26).


    heartbeat.py    join, stay, leave          classic.py     the same by JoinGroup, SyncGroup, ...
    finding.py      the group and the member   converting.py  classic groups to consumer groups and back
    advance.py      epochs and targets         reconcile.py   one step of a member to its target

The durable state of a group and its volatile deadlines are in `lacuna.controlplane.state.groups.consumer`.
docs/adr/0016-consumer-groups.md explains what is journalled and why.
"""
