"""Client quotas, which all agents share (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612)."""
