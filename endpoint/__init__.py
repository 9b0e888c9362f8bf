"""The interfaces for users: SPARQL over HTTP, streams and continuous queries, and the command line.

Nothing is imported here, so that `rillet --help` answers at once."""
