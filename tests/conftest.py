"""What all tests share: the real parts that some of them start."""

from __future__ import annotations

from tests.parts.hbase.fixture import hbase_server

__all__ = ["hbase_server"]
