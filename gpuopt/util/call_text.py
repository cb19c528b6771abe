"""Reads a launch that is written as a call: ``scale(4, 256, 1000, random(1000), zeros(1000))``.

Numbers, arithmetic of numbers, tuples and the arrays of ARRAYS are all that it evaluates.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

ELEMENTS_MOST = 1 << 28
_BITS_MOST = 64
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class ParsedCall(NamedTuple):
    """A call's name, its arguments, and those by keyword."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def _count(n: Any) -> int:
    if not isinstance(n, int) or not 0 <= n <= ELEMENTS_MOST:
        raise ValueError(f"launch: {n!r:.40} is not a number of elements, 0 to {ELEMENTS_MOST:,}")
    return n


def _random(n: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(1).random(_count(n)).astype(np.dtype(dtype))


def _integers(n: int, high: int, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(1).integers(0, high, _count(n)).astype(np.dtype(dtype))


ARRAYS: dict[str, Callable[..., np.ndarray]] = {
    "zeros": lambda n, dtype="float32": np.zeros(_count(n), np.dtype(dtype)),
    "ones": lambda n, dtype="float32": np.ones(_count(n), np.dtype(dtype)),
    "full": lambda n, value, dtype="float32": np.full(_count(n), value, np.dtype(dtype)),
    "arange": lambda n, dtype="float32": np.arange(_count(n)).astype(np.dtype(dtype)),
    "random": _random,
    "integers": _integers,
}
KINDS = "zeros(n), ones(n), full(n, value), arange(n), random(n) or integers(n, high)"


def _power(base: Any, exponent: Any) -> Any:
    if not (isinstance(exponent, int) and abs(exponent) <= _BITS_MOST and abs(base) <= 1 << 32):
        raise ValueError("launch: a power may have an exponent of up to 64")
    return base**exponent


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(each) for each in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if not all(isinstance(each, int | float) for each in (left, right)):
            raise ValueError("launch: arithmetic is for numbers only")
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if isinstance(node.op, ast.LShift) and isinstance(right, int) and 0 <= right <= _BITS_MOST:
            return int(left) << right
        if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ARRAYS:
        given = [_value(each) for each in node.args]
        named = {each.arg: _value(each.value) for each in node.keywords if each.arg}
        try:
            return ARRAYS[node.func.id](*given, **named)
        except TypeError as error:
            raise ValueError(f"launch: {ast.unparse(node)!r:.80}: {error}") from None
    raise ValueError(
        f"launch: {ast.unparse(node)!r:.80} is neither a number nor an array, written as {KINDS}"
    )


def _no_launch(text: str, why: str = "") -> ValueError:
    return ValueError(
        f"launch: {text!r:.80} is not a launch{why}; write kernel(grid, block, arguments ...), as "
        "scale(4, 256, 1000, random(1000), zeros(1000))"
    )


def split(text: str) -> ast.Call:
    """Return a launch's syntax tree; its kernel is a name, or a string such as 'scale<float>'."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _no_launch(text, f" ({error.msg})") from None
    known = isinstance(tree, ast.Call) and (
        isinstance(tree.func, ast.Name)
        or (isinstance(tree.func, ast.Constant) and isinstance(tree.func.value, str))
    )
    if not known or len(tree.args) < 2:
        raise _no_launch(text)
    return tree


def kernel_of(tree: ast.Call) -> str:
    """Return the name of a launch's kernel."""
    return tree.func.id if isinstance(tree.func, ast.Name) else tree.func.value


def read(text: str) -> ParsedCall:
    """Return a launch's kernel, its arguments with the grid and the block first, and keywords.

    Raises
    ------
    ValueError
        It is no call, or holds anything but numbers and arrays.
    """
    tree = split(text)
    keywords = {each.arg: _value(each.value) for each in tree.keywords if each.arg}
    return ParsedCall(kernel_of(tree), tuple(_value(each) for each in tree.args), keywords)
