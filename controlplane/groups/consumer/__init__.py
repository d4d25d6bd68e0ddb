"""Consumer groups of KIP-848: the coordinator assigns, and each member goes there by itself (S26).

    heartbeat.py    join, stay, leave          classic.py     the same by JoinGroup, SyncGroup, ...
    finding.py      the group and the member   converting.py  classic groups to consumer groups and back
    advance.py      epochs and targets         reconcile.py   one step of a member to its target
    group.py        what is durable            live.py        deadlines, which are not

docs/adr/0016-consumer-groups.md says what is journalled and why.
"""
