"""Types shared by agents, the pipeline and the control plane: extents, batches, errors, topic names and configs."""
