"""Runs and inspects clusters: embedded clusters, agents, journals, stores, and what commands and the console report."""
