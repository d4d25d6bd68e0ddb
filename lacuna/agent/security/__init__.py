"""The identity and rights of clients: listeners, TLS, SASL, ACLs."""
