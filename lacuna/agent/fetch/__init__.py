"""Fetch: from what a client asks to the buffers that it is sent.

The modules in the order of the data: `sessions` (interests), `planner` (waits until views have something), `plan`
(what to read; pure), `gather` (spans of plans), `cache` (what is in memory), `loading` (what is read), `stretch`
(batches in memory), `stretches` (where each piece is in memory), `coalescing` (small batches into large ones; pure),
`synthesize` (buffers; pure), `answers`. `service` calls them; docs/architecture.md walks through them. Beside the way:
`shared` (what the agents of a zone read for one another) and `chunks` (what this one has read for them), `fresh`
(batches that a flush has just written), `tails` (who waits for these), `buffers` (how much memory is in use),
`message_sets` (old clients), `lookup` (offsets by time), `explain` (fates of offsets as rows for people).
"""
