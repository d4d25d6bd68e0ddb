"""Shared by the admin APIs: configs, config resources, authorized operations, replica assignments."""
