"""The values of terms, and what SPARQL's operators make of them (SPARQL 1.1, section 17)."""

from stream_ext.values.values.comparing import and_, compare, equal, or_, truth
from stream_ext.values.values.kinds import (
    XSD,
    Duration,
    Number,
    Opaque,
    Resource,
    Tagged,
    Timed,
    Value,
)
from stream_ext.values.values.numbers import is_number, negated
from stream_ext.values.values.operations import arithmetic
from stream_ext.values.values.reading import value_of
from stream_ext.values.values.writing import text_of

__all__ = [
    "XSD",
    "Duration",
    "Number",
    "Opaque",
    "Resource",
    "Tagged",
    "Timed",
    "Value",
    "and_",
    "arithmetic",
    "compare",
    "equal",
    "is_number",
    "negated",
    "or_",
    "text_of",
    "truth",
    "value_of",
]
