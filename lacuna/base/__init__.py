"""The foundation of all other folders: errors, settings, secrets, TLS, addresses, and the pace of blocking work."""
