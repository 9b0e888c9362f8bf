"""Monitoring that works while other parts hang: last known figures, the lookout, the log.

It imports nothing of the endpoint; `routes.metrics` and `routes.operations` show it."""
