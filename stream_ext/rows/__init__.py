"""Rows: Z-sets of ids with weights and validities, and the structures that remember them.

It imports compiled loops (`kernels`) and the budget of an evaluation; it knows no query."""
