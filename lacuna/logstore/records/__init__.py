"""Reads, checks, writes and merges record batches of magic 2 (Kafka's message format, KIP-98).

Modules: `layout` (constants and small values), `errors`, `compression`, `packing`, `kernel` (the loops over batches and
records, compiled if a C compiler is present), `pieces` (such loops over parts of segments), `batch` (reads and writes
batches), `rewriting` (makes batches from other batches), `columns` and `encoding` (convert records to columns in
Arrow's layout, which `column_layout` describes, and back), `control` (control records and the filler), `validate`
(checks produced batches), `legacy` (message sets of magic 0 and 1).
"""
