"""Who a client is and what it may do: listeners, TLS, SASL, ACLs."""
