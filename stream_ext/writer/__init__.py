"""The writer: pushes, updates, registrations and derived streams, in one order, each in one snapshot.

Its verb is *inject*. It imports one-shot queries and the rooms below them, never continuous queries."""
