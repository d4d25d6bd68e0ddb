"""The contents of the bucket: record batches, segments and the object store. The modules turn bytes into values and
back.
"""
