"""Reads, checks, writes and merges record batches of magic 2 (Kafka's message format, KIP-98).

Modules: `layout` (constants and small values), `errors`, `compression`, `packing`, `kernel` (loops over batches and
records, compiled if there is a C compiler), `pieces` (the same loops over parts of segments), `batch` (batches as
values), `rewriting` (makes batches from other batches), `columns` and `encoding` (convert records to columns in Arrow's
layout, described in `column_layout`, and back), `control` (control records and the filler), `validate` (checks produced
batches), `legacy` (message sets of magic 0 and 1).
"""
