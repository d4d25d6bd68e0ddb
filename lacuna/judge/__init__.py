"""Judges any Kafka from outside: runs a workload against its brokers, and checks their answers with a pure checker.

`history` defines the observations. `checker`, `groups` and `cycles` find the anomalies in them, and `report` shows the
smallest history that proves each anomaly. `workload` runs the clients, which are defined in `actors` and `writers`.
"""
