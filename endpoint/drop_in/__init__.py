"""`from endpoint import SparqlEndpoint`: in place of rdflib-endpoint's class of that name, and with streams.

The verb is `answer`: on its path as rdflib-endpoint does, elsewhere as our application. The room imports `app`."""
