"""Quotas: what clients may use, over all agents together (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612)."""
