"""Judges any Kafka cluster from outside: runs a workload against its brokers, and checks their responses.

`history` defines the observations. `checker`, `groups` and `cycles` find the anomalies in them, and `report` shows the
smallest history that proves each anomaly. `workload` runs the clients, which are defined in `actors` and `writers`.
"""
