"""Operators that bring solutions together: joins with each other and with the store, and their negations."""
