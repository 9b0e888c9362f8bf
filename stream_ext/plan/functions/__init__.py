"""The functions of expressions: those of SPARQL by name, casts and others by IRI.

BOUND, IF, COALESCE, and what depends on more than its arguments (NOW, RAND, UUID, STRUUID, BNODE, IRI) are not here:
the compiler of expressions knows them itself."""

from stream_ext.plan.functions import moments, numbers, strings, terms
from stream_ext.plan.functions.casts import CASTS
from stream_ext.plan.functions.custom import (
    CustomFunction,
    FunctionError,
    register_function,
    registered_functions,
    unregister_function,
)
from stream_ext.plan.functions.function import Function, View
from stream_ext.plan.functions.hashes import HASHES

__all__ = [
    "CASTS",
    "FUNCTIONS",
    "CustomFunction",
    "Function",
    "FunctionError",
    "View",
    "register_function",
    "registered_functions",
    "unregister_function",
]

FUNCTIONS: dict[str, Function] = {
    "SAMETERM": Function(terms.same_term, takes=View.TEXTS),
    "ISIRI": Function(terms.is_iri, takes=View.TEXTS),
    "ISBLANK": Function(terms.is_blank, takes=View.TEXTS),
    "ISLITERAL": Function(terms.is_literal, takes=View.TEXTS),
    "ISNUMERIC": Function(terms.is_numeric),
    "STR": Function(terms.str_, takes=View.TEXTS),
    "LANG": Function(terms.lang, takes=View.TEXTS),
    "DATATYPE": Function(terms.datatype, takes=View.TEXTS),
    "STRDT": Function(terms.strdt, gives=View.TEXTS),
    "STRLANG": Function(terms.strlang, gives=View.TEXTS),
    "STRLEN": Function(strings.strlen),
    "SUBSTR": Function(strings.substr),
    "UCASE": Function(strings.ucase),
    "LCASE": Function(strings.lcase),
    "STRSTARTS": Function(strings.strstarts),
    "STRENDS": Function(strings.strends),
    "CONTAINS": Function(strings.contains),
    "STRBEFORE": Function(strings.strbefore),
    "STRAFTER": Function(strings.strafter),
    "ENCODE_FOR_URI": Function(strings.encode_for_uri),
    "CONCAT": Function(strings.concat),
    "LANGMATCHES": Function(strings.lang_matches),
    "REGEX": Function(strings.regex, bind=strings.regex_bound),
    "REPLACE": Function(strings.replace),
    "ABS": Function(numbers.absolute),
    "ROUND": Function(numbers.round_half_up),
    "CEIL": Function(numbers.ceil),
    "FLOOR": Function(numbers.floor),
    "YEAR": Function(moments.year),
    "MONTH": Function(moments.month),
    "DAY": Function(moments.day),
    "HOURS": Function(moments.hours),
    "MINUTES": Function(moments.minutes),
    "SECONDS": Function(moments.seconds),
    "TIMEZONE": Function(moments.timezone),
    "TZ": Function(moments.tz),
    **{name: Function(digest) for name, digest in HASHES.items()},
}
