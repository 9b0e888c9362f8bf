"""What values there are.

    xsd:integer and its kin  int            xsd:string           str
    xsd:decimal              Decimal        xsd:boolean          bool
    xsd:float                numpy float32  "..."@en             Tagged
    xsd:double               float          times and dates      Timed
                                            durations            Duration

An IRI or blank node is a `Resource`; a literal whose datatype is not known, or whose text is none of its
datatype, is `Opaque`. None is SPARQL's error."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import NamedTuple

import numpy as np

from stream_ext.times import Seconds, ZonedSeconds

XSD = "http://www.w3.org/2001/XMLSchema#"
DATETIME, DATE, TIME = XSD + "dateTime", XSD + "date", XSD + "time"
DURATION, DAY_TIME, YEAR_MONTH = XSD + "duration", XSD + "dayTimeDuration", XSD + "yearMonthDuration"


class Resource(NamedTuple):
    text: bytes


class Tagged(NamedTuple):
    lexical: str
    language: str  # in lower case: that is how tags are compared
    written: str


class Timed(NamedTuple):
    datatype: str  # DATETIME, DATE or TIME
    moment: ZonedSeconds


class Duration(NamedTuple):
    datatype: str  # DURATION, DAY_TIME or YEAR_MONTH
    months: int
    seconds: Seconds


class Opaque(NamedTuple):
    text: bytes
    is_false: bool  # as a condition: a boolean or number whose text is none is false, all others are errors


Number = int | Decimal | np.float32 | float
Value = bool | Number | str | Tagged | Timed | Duration | Resource | Opaque

#: What is worked out is an error (an overflow) if it has more digits, and a text with more characters has no value: who
#: computes with longer numbers keeps all others from the interpreter for seconds.
DIGITS_MAX = 10_000
CHARACTERS_MAX = 3 * DIGITS_MAX
#: Sums, differences and products of decimals are exact; what does not end (1 / 3) is kept to 50 digits.
EXACT = Context(prec=10_000_000, traps=[])
DIVISION = Context(prec=50, traps=[])
