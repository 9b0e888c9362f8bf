"""Emissions: what registered queries say, merged from parts, numbered, stored, and sent to subscribers.

Its verb is *merge*. It imports the catalog and what is below it; of networks it knows nothing."""
