"""The functions of expressions: those of SPARQL by name, casts and others by IRI.

BOUND, IF, COALESCE, and what depends on more than its arguments (NOW, RAND, UUID, STRUUID, BNODE, IRI) are not here:
the compiler of expressions knows them itself."""

from collections.abc import Callable
from typing import Any

from stream_ext.evaluation_budget import Control
from stream_ext.values.functions import moments, numbers, regexes, strings, terms
from stream_ext.values.functions.casts import CASTS
from stream_ext.values.functions.custom import (
    CustomFunction,
    FunctionError,
    register_function,
    registered_functions,
    unregister_function,
)
from stream_ext.values.functions.function import AT_ONCE_MAX, ArgumentView, Bind, Function, Makes
from stream_ext.values.functions.hashes import HASHES

__all__ = [
    "CASTS",
    "FUNCTIONS",
    "ArgumentView",
    "CustomFunction",
    "Function",
    "FunctionError",
    "Makes",
    "register_function",
    "registered_functions",
    "unregister_function",
]


def _bounded(
    within: Callable[[Control], Callable[..., Any]],
    gives: ArgumentView = ArgumentView.VALUES,
    bind: Bind | None = None,
    makes: Makes = Makes.TERMS,
    at_once_max: int = AT_ONCE_MAX,
) -> Function:
    return Function(within(Control.FREE), ArgumentView.VALUES, gives, bind, within, makes, at_once_max)


FUNCTIONS: dict[str, Function] = {
    "SAMETERM": Function(terms.same_term, takes=ArgumentView.TEXTS),
    "ISIRI": Function(terms.is_iri, takes=ArgumentView.TEXTS),
    "ISBLANK": Function(terms.is_blank, takes=ArgumentView.TEXTS),
    "ISLITERAL": Function(terms.is_literal, takes=ArgumentView.TEXTS),
    "ISNUMERIC": Function(terms.is_numeric),
    "STR": Function(terms.str_, takes=ArgumentView.TEXTS, makes=Makes.TERMS),
    "LANG": Function(terms.lang, takes=ArgumentView.TEXTS, makes=Makes.TERMS),
    "DATATYPE": Function(terms.datatype, takes=ArgumentView.TEXTS),
    "STRDT": _bounded(terms.strdt_within, gives=ArgumentView.TEXTS),
    "STRLANG": _bounded(terms.strlang_within, gives=ArgumentView.TEXTS),
    "STRLEN": Function(strings.strlen),
    "SUBSTR": Function(strings.substr, makes=Makes.TERMS),
    "UCASE": _bounded(strings.ucase_within),
    "LCASE": _bounded(strings.lcase_within),
    "STRSTARTS": Function(strings.strstarts),
    "STRENDS": Function(strings.strends),
    "CONTAINS": Function(strings.contains),
    "STRBEFORE": Function(strings.strbefore, makes=Makes.TERMS),
    "STRAFTER": Function(strings.strafter, makes=Makes.TERMS),
    "ENCODE_FOR_URI": _bounded(strings.encode_for_uri_within),
    "CONCAT": _bounded(strings.concat_within),
    "LANGMATCHES": Function(strings.lang_matches),
    "REGEX": _bounded(
        strings.regex_within, bind=strings.regex_bound, makes=Makes.SMALL, at_once_max=regexes.AT_ONCE_MAX
    ),
    "REPLACE": _bounded(strings.replace_within, at_once_max=regexes.AT_ONCE_MAX),
    "ABS": Function(numbers.absolute, makes=Makes.NUMBERS),
    "ROUND": Function(numbers.round_half_up, makes=Makes.NUMBERS),
    "CEIL": Function(numbers.ceil, makes=Makes.NUMBERS),
    "FLOOR": Function(numbers.floor, makes=Makes.NUMBERS),
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
