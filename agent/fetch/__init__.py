"""Fetch: decode, plan, read through the cache, emit.

`codec` (the wire, by hand), `plan` (pure: what to read, what is dropped, where holes are),
`cache` (bytes that were read and checked), `synthesize` (pass through, coalesce, fill), `sessions`
(KIP-227), `gather` (plans to cached extents), `service` (a request from end to end), `lookup`
(offsets by time), `explain` (a plan as rows for people).
"""
