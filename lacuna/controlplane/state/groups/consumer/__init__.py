"""The state of consumer groups (KIP-848)."""
