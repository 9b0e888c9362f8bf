"""The algebra: what a text means, as immutable values, and plain functions over them."""
