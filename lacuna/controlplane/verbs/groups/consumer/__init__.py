"""Consumer groups (KIP-848): the coordinator assigns partitions, and members move to their targets independently (S26).

    heartbeat.py    join, stay, leave             classic.py     the same over the classic protocol
    finding.py      look up groups and members    converting.py  upgrade and downgrade groups
    advance.py      epochs and targets            reconcile.py   move a member one step

The durable state of a group and its volatile deadlines are in `lacuna.controlplane.state.groups.consumer`.
docs/adr/0016-consumer-groups.md explains what is journalled and why.
"""
