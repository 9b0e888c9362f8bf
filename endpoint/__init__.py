"""What users touch: SPARQL over HTTP, streams and continuous queries, and the command line.

Nothing is imported here: `rillet --help` must answer at once."""
