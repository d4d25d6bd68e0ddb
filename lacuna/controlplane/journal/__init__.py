"""Durable storage of the control plane's decisions: an ordered list of journal records, and snapshots."""
