"""Routes: a module for each group of paths, and the table that leads to them. `openapi` describes what they answer.

Its verb is *answer*. It imports http, query_workers and formats; neither pages nor commands."""
