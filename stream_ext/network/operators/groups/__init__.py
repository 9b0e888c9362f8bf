"""Groups: tallies of solutions by key, and the values of aggregates."""
