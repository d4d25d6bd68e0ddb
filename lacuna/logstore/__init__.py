"""Record batches, the segments that hold them, and the object store that holds the segments."""
