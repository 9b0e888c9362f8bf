"""Continuous queries: the shard and its runs, which turn each snapshot into parts of emissions.

Its verb is *step*. It imports networks, the catalog and windows: no thread, no process, no runner."""
