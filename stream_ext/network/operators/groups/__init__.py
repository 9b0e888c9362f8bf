"""Groups: tallies of solutions by key, and what aggregates say of them."""
