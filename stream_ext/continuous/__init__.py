"""Continuous queries: a *shard* is one worker's share of the registered queries; a *run* is one query, or the
queries of one template, with the networks that evaluate it.

A shard takes one snapshot after the other, and returns for each what its queries emit. Its verb is *step*. It imports
networks, the catalog and windows: no thread, no process, no runner."""
