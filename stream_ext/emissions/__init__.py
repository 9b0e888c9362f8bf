"""Emissions: the results of registered queries, merged from parts, numbered, stored, and sent to subscribers.

Its verb is *merge*. It imports the catalog and the rooms below it, but no networks."""
