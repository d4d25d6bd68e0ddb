"""Reads, checks, writes and merges record batches of magic 2 (Kafka's message format, KIP-98).

Modules: `layout` (constants and small values), `errors`, `compression`, `packing`, `kernel` (the loops over
batches and records, compiled if a C compiler is present), `pieces` (the same for parts of segments), `batch` (read and
write), `rewriting` (batches of other batches), `columns` and `encoding` (records as columns in Arrow's layout and back,
`column_layout`), `control` (control records and the filler), `validate` (checks of produced batches), `legacy` (message
sets of magic 0 and 1).
"""
