"""Rillet for users of rdflib: `rdflib.Graph(store="rillet")`, `rdflib.Dataset(store="rillet")`.

And `attach`, which adds streams and registered queries to a Graph or Dataset that exists."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugin.attached.attached import attach

__all__ = ["attach"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'plugin' has no attribute {name!r}")
    return getattr(importlib.import_module("plugin.attached.attached"), name)
