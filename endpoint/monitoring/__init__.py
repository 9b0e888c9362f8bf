"""What is told of a server, whatever hangs: figures as they were last known, the lookout, the log.

It imports nothing of the endpoint; `routes.metrics` and `routes.operations` show it."""
