"""Expressions and paths, with as few parentheses as they need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from stream_ext.language.algebra.algebra import Pattern
from stream_ext.language.algebra.formulas import (
    Aggregate,
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    Exists,
    Expression,
    FunctionCall,
    Membership,
    Negate,
    Not,
    Or,
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
)
from stream_ext.language.algebra.terms import Constant, TemplateNode, Variable
from stream_ext.language.printing import terms
from stream_ext.language.printing.balance import chain
from stream_ext.language.syntax.paths import TYPE

_OR, _AND, _COMPARE, _ADD, _MULTIPLY, _UNARY, _PRIMARY = range(7)
_SUMS: Final = (ArithmeticOp.ADD, ArithmeticOp.SUBTRACT)
_ALTERNATIVE, _SEQUENCE, _STEP, _ELEMENT = range(4)


class Expressions(ABC):
    """Expressions as text. `plain`: in standard SPARQL 1.1; else in the syntax of our own parser.

    `constants`: a list to which constants are moved, so that the text has `$n` in their places; None: they are written
    in the text."""

    def __init__(self, plain: bool, constants: list[bytes] | None = None) -> None:
        self.plain, self.constants = plain, constants
        self.base: str | None = None  # what IRI(...) resolves against, once there is one
        self._labels = terms.Labels("b")
        self._template_labels = terms.Labels("t")

    @abstractmethod
    def group(self, pattern: Pattern, condition: Expression | None = None) -> str:
        """The pattern (with a filter) in braces."""

    def node(self, node: TemplateNode) -> str:
        """A subject or an object."""
        if isinstance(node, Constant):
            return self.constant(node)
        return self.fixed(node)

    def fixed(self, node: TemplateNode) -> str:
        """A predicate, a graph or a service: a constant that stays where it is."""
        return terms.node(node, self._labels, self._template_labels)

    def predicate(self, node: TemplateNode) -> str:
        return "a" if node == TYPE else self.fixed(node)

    def constant(self, constant: Constant) -> str:
        if self.constants is None:
            return terms.constant(Constant(terms.portable(constant.text)) if self.plain else constant)
        self.constants.append(constant.text)
        return f"${len(self.constants)}"

    # ---- expressions

    def expression(self, expression: Expression, least: int = _OR) -> str:
        """In parentheses if it binds more loosely than `least`."""
        level, text = self._levelled(expression)
        return text if level >= least else f"({text})"

    def constraint(self, expression: Expression) -> str:
        """As FILTER and HAVING take it."""
        if isinstance(expression, FunctionCall | Exists):
            return self.expression(expression)
        return f"({self.expression(expression)})"

    def _levelled(self, expression: Expression) -> tuple[int, str]:
        match expression:
            case Variable():
                return _PRIMARY, self.fixed(expression)
            case Constant():
                return _PRIMARY, self.constant(expression)
            case Or():
                return _OR, " || ".join([self.expression(part, _AND) for part in chain(expression, Or)])
            case And():
                return _AND, " && ".join([self.expression(part, _COMPARE) for part in chain(expression, And)])
            case Compare(op, left, right):
                return _COMPARE, f"{self.expression(left, _ADD)} {op.value} {self.expression(right, _ADD)}"
            case Membership(inner, items, negated):
                operator = "NOT IN" if negated else "IN"
                return _COMPARE, f"{self.expression(inner, _ADD)} {operator} ({self._list(items)})"
            case Arithmetic():
                return self._arithmetic(expression)
            case Not() | Negate():
                return _UNARY, self._unary(expression)
            case Exists(pattern, negated):
                return _PRIMARY, f"{'NOT ' * negated}EXISTS {self.group(pattern)}"
            case FunctionCall():
                return _PRIMARY, self._call(expression)
            case Aggregate():
                return _PRIMARY, self._aggregate(expression)

    def _list(self, items: tuple[Expression, ...]) -> str:
        return ", ".join([self.expression(item) for item in items])

    def _call(self, call: FunctionCall) -> str:
        if call.base is not None:
            self.base = call.base
        return f"{call.name}({'DISTINCT ' * call.distinct}{self._list(call.arguments)})"

    def _aggregate(self, aggregate: Aggregate) -> str:
        inner = "*" if aggregate.argument is None else self.expression(aggregate.argument)
        separator = "" if aggregate.separator is None else f" ; SEPARATOR = {terms.string(aggregate.separator)}"
        return f"{aggregate.name}({'DISTINCT ' * aggregate.distinct}{inner}{separator})"

    def _arithmetic(self, expression: Arithmetic) -> tuple[int, str]:
        """A chain to the left is walked: it may be as deep as the parser allows."""
        level = _ADD if expression.op in _SUMS else _MULTIPLY
        later: list[Arithmetic] = []
        left: Expression = expression
        while isinstance(left, Arithmetic) and (left.op in _SUMS) == (level == _ADD):
            later.append(left)
            left = left.left
        parts = [self.expression(left, level)]
        parts += [f"{each.op.value} {self.expression(each.right, level + 1)}" for each in reversed(later)]
        return level, " ".join(parts)

    def _unary(self, expression: Not | Negate) -> str:
        inner = expression.inner
        if self.plain:
            return ("!" if isinstance(expression, Not) else "-") + self._operand(inner)
        if isinstance(expression, Negate):
            if isinstance(inner, Negate):
                return "+" + self._operand(inner.inner)
            return "-" + self._operand(inner)
        if isinstance(inner, Negate):
            return "!" + self._unary(inner)
        if isinstance(inner, Not) and not isinstance(inner.inner, Not):
            return "!!" + (self._unary(inner.inner) if isinstance(inner.inner, Negate) else self._operand(inner.inner))
        return "!" + self._operand(inner)

    def _operand(self, expression: Expression) -> str:
        """What stands behind a sign; a number keeps its quotes there, or the sign would become its own."""
        if isinstance(expression, Constant) and self.constants is None:
            return (terms.portable(expression.text) if self.plain else expression.text).decode()
        return self.expression(expression, _PRIMARY)

    # ---- paths

    def path(self, path: Path, least: int = _ALTERNATIVE) -> str:
        level, text = self._levelled_path(path)
        return text if level >= least else f"({text})"

    def _levelled_path(self, path: Path) -> tuple[int, str]:
        match path:
            case Constant():
                return _ELEMENT, self.predicate(path)
            case PathAlternative(parts):
                return _ALTERNATIVE, "|".join([self.path(part, _SEQUENCE) for part in parts])
            case PathSequence(parts):
                return _SEQUENCE, "/".join([self.path(part, _STEP) for part in parts])
            case PathInverse(PathRepeat(inner, times)):
                return _STEP, f"^{self.path(inner, _ELEMENT)}{times.value}"
            case PathInverse(inner):
                return _STEP, "^" + self.path(inner, _ELEMENT)
            case PathRepeat(inner, times):
                return _STEP, self.path(inner, _ELEMENT) + times.value
            case PathNegated(forward, backward):
                names = [*map(self.predicate, forward), *("^" + self.predicate(name) for name in backward)]
                return _ELEMENT, f"!({'|'.join(names)})"
