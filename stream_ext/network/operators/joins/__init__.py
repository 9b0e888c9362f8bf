"""Operators that combine solutions: joins with each other and with the store, and their negations."""
