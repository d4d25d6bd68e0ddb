"""The parts that operate a cluster: the embedded cluster, agents, journals, stores, and the reports of commands."""
