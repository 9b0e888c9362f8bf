"""Attached datasets, the side of rdflib: streams and registered queries over a Graph or Dataset, wherever it keeps its
triples.

The verb is `attach`. The room imports the engine's service; the ASGI application is above it, and found by name."""
