"""What every other room stands on: errors, settings, secrets, TLS, addresses, and the pace of blocking work."""
