"""SASL: how clients authenticate (KIP-43, KIP-152, KIP-84, KIP-255, KIP-368)."""
