"""Sorted rows in memory: views, merges, and the neighbours of many keys at once, in compiled loops.

It imports arrays only."""
