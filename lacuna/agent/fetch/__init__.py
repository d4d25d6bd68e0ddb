"""Fetch: from a client's request to the buffers of the answer.

The modules in the order of the data: `sessions` (interests), `planner` (waits until views have records), `plan` (plans
reads; pure), `gather` (spans of plans), `cache` (extents in memory), `loading` (reads of the store), `stretch` (batches
in memory), `stretches` (the place of each piece in memory), `coalescing` (small batches into large ones; pure),
`synthesize` (buffers; pure), `answers`. `service` calls them; docs/architecture.md walks through them. Other modules
are `shared` (reads shared by the agents of a zone), `chunks` (reads for the zone), `fresh` (batches that a flush has
just written), `tails` (consumers that wait for these), `buffers` (memory in use), `message_sets` (old clients),
`lookup` (offsets by time) and `explain` (fates of offsets as readable rows).
"""
