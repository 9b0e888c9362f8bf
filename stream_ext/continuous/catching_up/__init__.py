"""Queries that are behind the others of their shard: why they are, who evaluates them, and for how long at a time.
Verb: catch up.

A query is behind while an endpoint does not answer, while it has a long past, or while it would make pushes wait. May
import: the runs and steps of its parent."""
