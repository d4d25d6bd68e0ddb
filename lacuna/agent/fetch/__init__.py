"""Fetch: from a client's request to the buffers of the answer.

In the order in which data passes through them, the modules are `sessions` (interests), `planner` (waits until views
have records), `plan` (plans reads), `gather` (spans of plans), `cache` (extents in memory), `loading` (reads from the
store), `stretch` (batches in memory), `stretches` (the place of each piece in memory), `coalescing` (joins small
batches into large ones), `synthesize` (buffers) and `answers`. `plan`, `coalescing` and `synthesize` have no side
effects. `service` calls the modules, and docs/architecture.md walks through them.

The other modules include `shared` (reads shared by the agents in a zone), `chunks` (reads for the zone), `fresh`
(batches that a flush has just written), `buffers` (memory in use), `message_sets` (answers for old clients), `internal`
(internal topics), `lookup` (offsets by time) and `explain` (fates of offsets as readable rows).
"""
