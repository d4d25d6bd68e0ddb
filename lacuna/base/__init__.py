"""The foundation of all other packages: errors, settings, secrets, TLS, addresses, and the pacing of blocking work."""
