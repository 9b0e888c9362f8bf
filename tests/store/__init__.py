"""Tests of hbase_store."""
