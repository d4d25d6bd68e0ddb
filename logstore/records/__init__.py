"""Record batches of magic 2: read, checked, written, merged (Kafka's message format, KIP-98).

Modules: `layout` (constants and small values), `errors`, `crc`, `compression`, `packing`, `kernel`
(the loops over batches and records, compiled where a C compiler is present), `batch` (read and
write), `rewriting` (batches of other batches), `columns` and `encoding` (records as columns in
Arrow's layout and back, `column_layout`), `control` (control records and the filler), `validate` (what a
producer sent), `lookup`.
"""
