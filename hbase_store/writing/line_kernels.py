"""The loops that take N-Triples and N-Quads apart: lines into terms, and terms into numbers, in one pass.

Only what is written as we would write it is understood here: absolute IRIs without escapes, plain labels, literals with
no other escapes than the canonical ones, language tags in lower case. Any other line is left to a careful parser; so a
term is known by its very bytes. Terms are numbered in order of first appearance by a hash table
whose arrays the caller owns and grows."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.layout.hashing import hash_bytes

#: Why `read_lines` stopped: at the end, for want of room in the arrays, or at a line that it does not understand.
DONE, FULL, CAREFUL = 0, 1, 2

_LETTER, _DIGIT, _LOWER, _SCHEME, _LABEL, _BAD = 1, 2, 4, 8, 16, 32


def _classes() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    classes = np.zeros(256, np.uint8)
    for i in range(256):
        c = chr(i)
        ascii_letter, digit = i < 128 and c.isalpha(), i < 128 and c.isdigit()
        classes[i] |= _LETTER * ascii_letter | _DIGIT * digit | _LOWER * (ascii_letter and c.islower())
        classes[i] |= _SCHEME * (ascii_letter or digit or c in "+.-") | _LABEL * (ascii_letter or digit or c in "_-")
        classes[i] |= _BAD * (i <= 0x20 or c in '<>"{}|^`\\')
    return classes


_CLASS = _classes()
_XSD_STRING = np.frombuffer(b"<http://www.w3.org/2001/XMLSchema#string>", np.uint8).copy()
_XSD_INTEGER = np.frombuffer(b'"^^<http://www.w3.org/2001/XMLSchema#integer>', np.uint8).copy()
_ZERO = 1 << 59
#: So many terms are looked up together.
_BLOCK = 64


@njit(cache=True, nogil=True)
def _iri_end(data, start, end):  # type: ignore[no-untyped-def]
    """Behind the IRI whose < is at `start`; -1 if that is none that we know. Unsigned: see `hashing`."""
    one = np.uint64(1)
    at, stop = np.uint64(start) + one, np.uint64(end)
    if at >= stop or not _CLASS[data[at]] & _LETTER:
        return -1
    while at < stop and _CLASS[data[at]] & _SCHEME:
        at += one
    if at >= stop or data[at] != 58:  # a colon
        return -1
    while at < stop and not _CLASS[data[at]] & _BAD:
        at += one
    return np.int64(at + one) if at < stop and data[at] == 62 else -1


@njit(cache=True, nogil=True)
def _label_end(data, at, end):  # type: ignore[no-untyped-def]
    i = at + 2
    if i >= end or data[at + 1] != 58 or not _CLASS[data[i]] & _LABEL or data[i] == 45:
        return -1
    while i < end and _CLASS[data[i]] & _LABEL:
        i += 1
    if i < end and data[i] >= 128:
        return -1
    # A dot may belong to the label, if more of it follows.
    if i + 1 < end and data[i] == 46 and (_CLASS[data[i + 1]] & _LABEL or data[i + 1] == 46 or data[i + 1] >= 128):
        return -1
    return i


@njit(cache=True, nogil=True)
def _equal(data, start, end, text):  # type: ignore[no-untyped-def]
    if end - start != len(text):
        return False
    for i in range(len(text)):  # noqa: SIM110  # numba has no all()
        if data[start + i] != text[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _language_end(data, at, end):  # type: ignore[no-untyped-def]
    i = at
    first = True
    while True:
        start = i
        while i < end and (_CLASS[data[i]] & _LOWER or (not first and _CLASS[data[i]] & _DIGIT)):
            i += 1
        if i == start:
            return -1
        first = False
        if i < end and data[i] == 45:
            i += 1
            continue
        return -1 if i < end and _CLASS[data[i]] & _LABEL else i


@njit(cache=True, nogil=True)
def _string_end(data, start, end):  # type: ignore[no-untyped-def]
    """At the closing quote of the string that begins at `start`; -1 if there is none, or an escape is not canonical."""
    one = np.uint64(1)
    at, stop = np.uint64(start) + one, np.uint64(end)
    while at < stop:
        c = data[at]
        if c == 34:
            return np.int64(at)
        if c == 10 or c == 13:
            return -1
        if c == 92:
            at += one
            # " \ n r: those that are written
            if at >= stop or not (data[at] == 34 or data[at] == 92 or data[at] == 110 or data[at] == 114):
                return -1
        at += one
    return -1


@njit(cache=True, nogil=True)
def _literal_end(data, at, end):  # type: ignore[no-untyped-def]
    i = _string_end(data, at, end)
    if i < 0:
        return -1
    i += 1
    if i < end and data[i] == 64:
        return _language_end(data, i + 1, end)
    if i < end and data[i] == 94:
        if i + 2 >= end or data[i + 1] != 94 or data[i + 2] != 60:
            return -1
        stop = _iri_end(data, i + 2, end)
        return -1 if stop < 0 or _equal(data, i + 2, stop, _XSD_STRING) else stop
    return i


@njit(cache=True, nogil=True)
def _skip(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and (data[at] == 32 or data[at] == 9):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _same(one, start, end, other, begin):  # type: ignore[no-untyped-def]
    """Whether the bytes one[start:end] come again in `other` at `begin`. Unsigned: see `hashing`."""
    at, stop, there = np.uint64(start), np.uint64(end), np.uint64(begin)
    different = np.uint8(0)
    while at < stop:
        different |= one[at] ^ other[there]
        at += np.uint64(1)
        there += np.uint64(1)
    return different == 0


@njit(cache=True, nogil=True)
def number_of(data, start, end, table, hashes, offsets, arena, counts):  # type: ignore[no-untyped-def]
    """The number of a term; a new one gets the next, and its bytes go to the arena."""
    return _number_of(data, start, end, hash_bytes(data, start, end), table, hashes, offsets, arena, counts)


@njit(cache=True, nogil=True)
def _number_of(data, start, end, value, table, hashes, offsets, arena, counts):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    slot = np.int64(value & np.uint64(mask))
    size = end - start
    while True:
        number = table[slot]
        if number < 0:
            break
        same_size = hashes[number] == value and offsets[number + 1] - offsets[number] == size
        if same_size and _same(data, start, end, arena, offsets[number]):
            return number
        slot = (slot + 1) & mask
    number = counts[0]
    begin = offsets[number]
    for i in range(size):
        arena[begin + i] = data[start + i]
    offsets[number + 1] = begin + size
    hashes[number] = value
    table[slot] = number
    counts[0] = number + 1
    return number


@njit(cache=True, nogil=True)
def number_all(texts, starts, values, table, hashes, offsets, arena, counts, numbers):  # type: ignore[no-untyped-def]
    """Fills in the numbers of distinct terms, whose hashes are `values`.

    Each look-up waits for memory three times: the slot, what is known of the term there, its text. So these are read
    for a block of terms first, where none has to wait for another. Returned is what was read, or it would not be."""
    mask, read = np.uint64(len(table) - 1), np.uint64(0)
    slots = np.empty(_BLOCK, np.int32)
    for begin in range(0, len(values), _BLOCK):
        stop = min(begin + _BLOCK, len(values))
        for i in range(begin, stop):
            slots[i - begin] = table[np.int64(values[i] & mask)]
        for number in slots[: stop - begin]:
            if number >= 0:
                read += hashes[number] + np.uint64(offsets[number])
        for number in slots[: stop - begin]:
            if number >= 0:
                read += np.uint64(arena[offsets[number]])
        for i in range(begin, stop):
            numbers[i] = _number_of(texts, starts[i], starts[i + 1], values[i], table, hashes, offsets, arena, counts)
    return read


@njit(cache=True, nogil=True)
def rehash(table, hashes, count):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    for number in range(count):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number


@njit(cache=True, nogil=True)
def line_end(data, at):  # type: ignore[no-untyped-def]
    while at < len(data) and data[at] != 10 and data[at] != 13:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _statement(data, at, end, quads, spans):  # type: ignore[no-untyped-def]
    """Behind the dot and the blanks after it; -1 if this is no statement that we know. The terms go to `spans`."""
    for term in range(4):
        at = _skip(data, at, end)
        if at >= end:
            return -1
        c = data[at]
        if term == 3 and (not quads or c == 46):
            spans[6] = spans[7] = 0
            break
        if c == 60:
            stop = _iri_end(data, at, end)
        elif c == 95 and term != 1 and at + 1 < end:
            stop = _label_end(data, at, end)
        elif c == 34 and term == 2:
            stop = _literal_end(data, at, end)
        else:
            return -1
        if stop < 0:
            return -1
        spans[2 * term], spans[2 * term + 1] = at, stop
        at = stop
    at = _skip(data, at, end)
    if at >= end or data[at] != 46:
        return -1
    at = _skip(data, at + 1, end)
    return at if at >= end or data[at] == 10 or data[at] == 13 else -1


@njit(cache=True, nogil=True)
def read_lines(data, at, quads, table, hashes, offsets, arena, counts, out):  # type: ignore[no-untyped-def]
    """(why it stopped, where): `counts` are terms, rows and lines so far; `out` gets the numbers of each statement."""
    end = len(data)
    spans = np.zeros(8, np.int64)
    s_start, s_end, s_number = 0, 0, np.int64(-1)
    # Of a few predicates where they stood last, and their numbers.
    p_starts, p_ends, p_numbers = np.zeros(16, np.int64), np.zeros(16, np.int64), np.zeros(16, np.int64)
    while True:
        begin = at
        at = _skip(data, at, end)
        if at >= end:
            return DONE, at
        if data[at] == 10 or data[at] == 13:
            # \r\n is one end of a line
            at += 2 if data[at] == 13 and at + 1 < end and data[at + 1] == 10 else 1
            counts[2] += 1
            continue
        if data[at] == 35:
            at = line_end(data, at)
            continue
        if counts[1] == out.shape[1] or 2 * (counts[0] + 4) > len(table) or counts[0] + 4 >= len(hashes):
            return FULL, begin
        stop = _statement(data, at, end, quads, spans)
        if stop < 0:
            return CAREFUL, begin
        if offsets[counts[0]] + stop - at > len(arena):
            return FULL, begin
        row = counts[1]
        s_size = spans[1] - spans[0]
        if s_number < 0 or s_size != s_end - s_start or not _same(data, spans[0], spans[1], data, s_start):
            s_number = number_of(data, spans[0], spans[1], table, hashes, offsets, arena, counts)
        s_start, s_end = spans[0], spans[1]
        out[0, row] = s_number
        place = (spans[3] - spans[2] + data[spans[3] - 2]) & 15
        p_start, p_size = p_starts[place], spans[3] - spans[2]
        if p_ends[place] - p_start != p_size or not _same(data, spans[2], spans[3], data, p_start):
            p_numbers[place] = number_of(data, spans[2], spans[3], table, hashes, offsets, arena, counts)
        p_starts[place], p_ends[place] = spans[2], spans[3]
        out[1, row] = p_numbers[place]
        out[2, row] = number_of(data, spans[4], spans[5], table, hashes, offsets, arena, counts)
        out[3, row] = -1
        if spans[7] > 0:
            out[3, row] = number_of(data, spans[6], spans[7], table, hashes, offsets, arena, counts)
        counts[1] = row + 1
        at = stop


@njit(cache=True, nogil=True)
def _integer(arena, start, end):  # type: ignore[no-untyped-def]
    """The value of a canonical xsd:integer within 60 bits; otherwise 2**59, which is none."""
    digits_end = end - len(_XSD_INTEGER)
    if digits_end <= start + 1 or arena[start] != 34 or not _equal(arena, digits_end, end, _XSD_INTEGER):
        return _ZERO
    at = start + 1
    negative = arena[at] == 45
    if negative:
        at += 1
    if digits_end - at < 1 or digits_end - at > 18 or (arena[at] == 48 and (negative or digits_end - at > 1)):
        return _ZERO
    value = np.int64(0)
    for i in range(at, digits_end):
        if arena[i] < 48 or arena[i] > 57:
            return _ZERO
        value = value * 10 + (np.int64(arena[i]) - 48)
    if negative:
        value = -value
    return value if -_ZERO <= value < _ZERO else _ZERO


@njit(cache=True, nogil=True)
def own_ids(arena, offsets, integer_base, blank_base, ids):  # type: ignore[no-untyped-def]
    """Fills in the ids of integers and blank nodes, the latter from `blank_base` on; how many blank nodes there are."""
    blanks = 0
    for i in range(len(ids)):
        start, end = offsets[i], offsets[i + 1]
        if arena[start] == 95:
            ids[i] = blank_base + np.uint64(blanks)
            blanks += 1
        elif arena[start] == 34:
            value = _integer(arena, start, end)
            if value != _ZERO:
                ids[i] = integer_base + np.uint64(value + _ZERO)
    return blanks
