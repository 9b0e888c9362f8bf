"""Routes: a module for each group of paths, and the table of all paths. `openapi` describes them.

It imports http, query_workers and formats; neither pages nor commands."""
