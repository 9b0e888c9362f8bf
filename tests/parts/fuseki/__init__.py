"""A real Apache Jena Fuseki for the tests."""
