"""Monitoring that works while other parts hang: last known figures, the lookout, the log.

It imports nothing of the endpoint. `routes.operations` shows it; so does `routes.metrics`, which measures processes
when it is asked."""
