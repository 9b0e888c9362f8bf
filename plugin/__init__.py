"""Rillet for users of rdflib: `rdflib.Graph(store="rillet")`, `rdflib.Dataset(store="rillet")`."""
