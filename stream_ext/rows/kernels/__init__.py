"""Loops over rows that are too hot for Python, compiled by numba and cached on disk.

Nothing else of the engine imports numba."""
