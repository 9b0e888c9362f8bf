"""A real HBase for the tests."""
