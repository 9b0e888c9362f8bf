"""Demonstrations: published benchmarks of stream processing, played into a server.

Their data comes from a generator or from a folder.

It imports the client and the replay of files: neither routes nor pages, and no engine."""
