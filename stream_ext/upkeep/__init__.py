"""Upkeep: late elements, retention, alarms, and the lag of queries.

It imports the writer, the catalog, emissions and windows. It does not import runners, nor they it."""
