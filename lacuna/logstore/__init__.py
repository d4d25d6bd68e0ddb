"""The contents of the bucket: record batches, segments and the object store. Bytes in, values out."""
