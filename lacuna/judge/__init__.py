"""Judges any Kafka from outside: a workload against its brokers, and a pure checker of what they answered.

`history` has the observations. `checker`, `groups` and `cycles` find the anomalies in them, and `report` shows each one
by its smallest history. `workload` runs the clients, which are `actors` and `writers`.
"""
