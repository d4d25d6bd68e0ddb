"""What operates a cluster: the embedded one, agents, journals, stores, and what commands and console report."""
