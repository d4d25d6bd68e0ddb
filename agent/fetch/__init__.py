"""Fetch: decode, plan, read through the cache, emit.

`codec` (the wire, by hand), `plan` (pure: what to read, what is dropped, where holes are), `loading`
(what is read together, and the read), `stretch` (what is in memory, ready for the wire), `fresh` (what a
flush has just written), `buffers` (how much memory all of it takes), `cache`, `gather` (plans to
spans), `synthesize` (pass through, coalesce, fill), `sessions` (KIP-227), `service` (a request from
end to end), `lookup` (offsets by time), `explain` (a plan as rows for people).
"""
