"""The interfaces for users: SPARQL over HTTP, streams and continuous queries, and the command line.

The public face is `SparqlEndpoint`. It is looked up on first use, so that `rillet --help` answers at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from endpoint.drop_in.sparql_endpoint import SparqlEndpoint

__all__ = ["SparqlEndpoint"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'endpoint' has no attribute {name!r}")
    return getattr(importlib.import_module("endpoint.drop_in.sparql_endpoint"), name)
