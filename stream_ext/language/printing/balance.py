"""The chains from which the parser built balanced trees.

Join(Join(a, b), c)      =>      a, b, c          for that is what the parser makes of { a b c }"""

from __future__ import annotations

from typing import TypeVar

#: How many shorter chains are tried before a tree is taken for a chain of two: any is right, a long one reads best.
_TRIES = 64


Shape = object  # an int for a place in the chain, or a pair of shapes
Node = TypeVar("Node")


def chain(root: Node, kind: type[Node]) -> list[Node]:
    """The longest list of which `balanced` makes `root`, a tree of nodes of `kind`."""
    if not isinstance(root, kind):
        return [root]
    leaves = _leaves(root, kind)
    for length in range(leaves, max(2, leaves - _TRIES), -1):
        found: list[Node] = []
        if _fits(root, kind, _shape(length), found):
            return found
    return [root.left, root.right]  # type: ignore[attr-defined]  # kind has both


def _leaves(root: object, kind: type) -> int:
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.left, node.right]  # type: ignore[attr-defined]  # kind has both
        else:
            count += 1
    return count


def _shape(length: int) -> Shape:
    level: list[Shape] = list(range(length))
    while len(level) > 1:
        paired: list[Shape] = [(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def _fits(node: Node, kind: type[Node], shape: Shape, found: list[Node]) -> bool:
    if not isinstance(shape, tuple):
        found.append(node)
        return True
    if not isinstance(node, kind):
        return False
    left, right = node.left, node.right  # type: ignore[attr-defined]  # kind has both
    return _fits(left, kind, shape[0], found) and _fits(right, kind, shape[1], found)
