"""SERVICE: solutions joined with those of another endpoint, and its answers for as long as rows need them."""
