"""Streams over a store: the language, the networks that evaluate its queries, and the runners of the networks.

The public face: `parse` (text to algebra), `to_sparql`, `to_canonical` and `to_rdflib` (algebra to text and to rdflib),
`Service` (what endpoint, plugin and command line talk to), `register_function`, `unregister_function`,
`registered_functions`, `FunctionError` (functions of one's own for expressions), `RilletError`.
Names are looked up on first use, so that importing this package costs a command-line call nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_ext.errors import RilletError
    from stream_ext.language.printing import to_canonical, to_rdflib, to_sparql
    from stream_ext.language.syntax import parse
    from stream_ext.service.service import Service
    from stream_ext.values.functions import FunctionError, register_function, registered_functions, unregister_function

__all__ = [
    "FunctionError",
    "RilletError",
    "Service",
    "parse",
    "register_function",
    "registered_functions",
    "to_canonical",
    "to_rdflib",
    "to_sparql",
    "unregister_function",
]

_HOME = {
    "FunctionError": "stream_ext.values.functions",
    "RilletError": "stream_ext.errors",
    "Service": "stream_ext.service.service",
    "parse": "stream_ext.language.syntax",
    "register_function": "stream_ext.values.functions",
    "registered_functions": "stream_ext.values.functions",
    "to_canonical": "stream_ext.language.printing",
    "to_rdflib": "stream_ext.language.printing",
    "to_sparql": "stream_ext.language.printing",
    "unregister_function": "stream_ext.values.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'stream_ext' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
