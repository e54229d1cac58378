"""Expressions: constants, operators, comparisons, subscripts and attributes."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...exceptions import WujiSyntaxError, WujiTypeError
from .. import dtypes, emit, ops
from ..access import ArrayVal, DynamicList, element_of_field
from ..field import Field
from ..matrix import Matrix, in_kernel
from ..overflow import report_overflow
from ..struct import Struct
from ..text import FormattedText, Placeholder, format_printf
from ..values import Expr, Ref, StructVal, is_device
from .conditions import Conditions, refuse_whole

if TYPE_CHECKING:
    from ..context import Compilation
    from .scope import Scope

_BINARY: dict[type, tuple[Any, Any, str]] = {
    ast.Add: (ops.add, operator.add, "+"),
    ast.Sub: (ops.sub, operator.sub, "-"),
    ast.Mult: (ops.mul, operator.mul, "*"),
    ast.Div: (ops.truediv, operator.truediv, "/"),
    ast.FloorDiv: (ops.floordiv, operator.floordiv, "//"),
    ast.Mod: (ops.mod, operator.mod, "%"),
    ast.Pow: (ops.pow, operator.pow, "**"),
    ast.BitAnd: (ops.bit_and, operator.and_, "&"),
    ast.BitOr: (ops.bit_or, operator.or_, "|"),
    ast.BitXor: (ops.bit_xor, operator.xor, "^"),
    ast.LShift: (ops.bit_shl, operator.lshift, "<<"),
    ast.RShift: (ops.bit_sar, operator.rshift, ">>"),
    ast.MatMult: (ops._matmul, operator.matmul, "@"),
}
_COMPARE: dict[type, tuple[Any, Any]] = {
    ast.Lt: (ops.cmp_lt, operator.lt),
    ast.LtE: (ops.cmp_le, operator.le),
    ast.Gt: (ops.cmp_gt, operator.gt),
    ast.GtE: (ops.cmp_ge, operator.ge),
    ast.Eq: (ops.cmp_eq, operator.eq),
    ast.NotEq: (ops.cmp_ne, operator.ne),
}


class Expressions(Conditions):
    cx: Compilation
    b: Any
    scope: Scope
    static_depth: int
    depth: int

    if TYPE_CHECKING:

        def static_scope(self) -> AbstractContextManager[None]: ...
        def eval(self, node: ast.expr) -> Any: ...
        def at(self, node: ast.AST) -> None: ...
        def _located(self, node: Any, visit: Any, *args: Any) -> Any: ...
        def warn(self, text: str, node: ast.AST) -> None: ...
        def excerpt(self, node: ast.expr | ast.stmt) -> str: ...

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression to a value. References are loaded."""
        result = self.eval(node)
        return result.load() if isinstance(result, (Ref, StructVal)) else result

    # Atoms.
    def visit_Constant(self, node: ast.Constant) -> Any:
        if node.value is ... or isinstance(node.value, (bytes, complex)):
            raise WujiTypeError(f"{node.value!r} is not supported in kernels")
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        return self.scope.find(node.id)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._items(node.elts))

    def visit_List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                items.extend(self._spread(n))
            else:
                items.append(self.value(n))
        return items

    def _spread(self, node: ast.Starred) -> list[Any]:
        value = self.value(node.value)
        if isinstance(value, Expr):
            return emit.components(value)
        return list(value)

    def visit_Starred(self, node: ast.Starred) -> Any:
        raise WujiSyntaxError("a starred expression is only allowed in a list or a call")

    def visit_Dict(self, node: ast.Dict) -> Any:
        out: dict[Any, Any] = {}
        for k, v in zip(node.keys, node.values, strict=True):
            if k is None:
                out.update(self.value(v))
            else:
                out[self.value(k)] = self.value(v)
        return out

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        out: list[Any] = []
        self._comprehend(node.generators, lambda: out.append(self.value(node.elt)))
        return out

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        out: dict[Any, Any] = {}

        def one() -> None:
            out[self.value(node.key)] = self.value(node.value)

        self._comprehend(node.generators, one)
        return out

    def _comprehend(self, generators: list[ast.comprehension], one: Any) -> None:
        if not generators:
            one()
            return
        first, *rest = generators
        if first.is_async:
            raise WujiSyntaxError("`async` is not supported in kernels")
        self.scope.push()
        try:
            for item in self._static_items(first.iter):
                self.bind(first.target, item)  # type: ignore[attr-defined]
                if all(self._static_condition(test) for test in first.ifs):
                    self._comprehend(rest, one)
        finally:
            self.scope.pop()

    def _static_condition(self, node: ast.expr) -> bool:
        with self.static_scope():
            value = self.value(node)
        if is_device(value):
            raise WujiTypeError("the condition of a comprehension must be a compile-time constant")
        return bool(value)

    def _static_items(self, node: ast.expr) -> Any:
        """Evaluate something that is iterated over at compile time."""
        from .loops import static_iterable

        with self.static_scope():
            return static_iterable(self.value(node))

    # Strings.
    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        pieces: list[Any] = []
        for part in node.values:
            value = self.eval(part)
            pieces.append(value)
        if all(isinstance(p, str) for p in pieces):
            return "".join(pieces)
        return FormattedText(pieces)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self.value(node.value)
        spec = ""
        if node.format_spec is not None:
            spec = self.eval(node.format_spec)
            if not isinstance(spec, str):
                raise WujiTypeError("a format specification must be a compile-time constant")
        if not is_device(value) and not isinstance(value, (Matrix, Struct)):
            if node.conversion == ord("r"):
                value = repr(value)
            return format(value, spec)
        return Placeholder(value, spec)

    # Operators.
    def visit_BinOp(self, node: ast.BinOp) -> Any:
        # A loop instead of recursion: a sum may have many terms.
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        result = self.value(chain[-1].left)
        for part in reversed(chain):
            result = self._located(part, self._binary, result)
        return result

    def _binary(self, node: ast.BinOp, left: Any) -> Any:
        right = self.value(node.right)
        dual, plain, what = _BINARY[type(node.op)]
        if isinstance(left, str) and isinstance(node.op, ast.Mod):
            return format_printf(left, right) if _has_run_time_values(right) else plain(left, right)
        if isinstance(left, Expr) or isinstance(right, Expr):
            result = dual(left, right)
            self.check_overflow(node, left, right, result)
            return result
        if isinstance(left, StructVal) or isinstance(right, StructVal):
            raise WujiTypeError(f"`{what}` is not defined for structs\n  = help: use the members")
        if isinstance(left, Matrix) or isinstance(right, Matrix):
            return dual(left, right)
        if self.static_depth and type(left) is int and type(right) is int:
            return plain(left, right)
        if isinstance(right, (list, tuple)) and not isinstance(left, (list, tuple)) and emit.is_number(left):
            return dual(left, right)
        if emit.is_number(left) and emit.is_number(right):
            return dual(left, right)
        return plain(left, right)

    def check_overflow(self, node: ast.BinOp | ast.AugAssign, left: Any, right: Any, result: Any) -> None:
        """In debug mode, report arithmetic that overflows."""
        if self.cx.runtime.config.debug:
            report_overflow(node, left, right, result, self.excerpt(node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        op = type(node.op)
        if op is ast.Not:
            if is_device(value) or isinstance(value, Matrix):
                return ops.logical_not(value)
            return not self.known(node.operand, value, "an operand of `not`")
        if op is ast.USub:
            return ops.neg(value)
        if op is ast.UAdd:
            return value
        return ops.bit_not(value)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        operand = f"an operand of `{'and' if is_and else 'or'}`"
        result = self.value(node.values[0])
        for position, following in enumerate(node.values[1:], 1):
            if not is_device(result) and not isinstance(result, Matrix):
                # A compile-time constant decides whether the rest is evaluated.
                if self.known(node.values[position - 1], result, operand) != is_and:
                    return result
                result = self.value(following)
                continue
            if isinstance(result, Matrix) or result.shape or not self._must_skip(following):
                result = _logical(is_and, result, self._operand(following, operand))
                continue
            result = self._short_circuited(is_and, result, following, operand)
        return result

    def _operand(self, node: ast.expr, what: str) -> Any:
        value = self.value(node)
        if not is_device(value) and not isinstance(value, Matrix):
            self.known(node, value, what)
        return value

    def _must_skip(self, node: ast.expr) -> bool:
        """Return whether the operand must be skipped: it has side effects or is expensive."""
        return self.cx.runtime.config.short_circuit_operators and not _cheap(node)  # type: ignore[attr-defined]

    def _short_circuited(self, is_and: bool, first: Expr, node: ast.expr, operand: str) -> Expr:
        condition = emit.truth(first)
        self.b.begin_if((condition if is_and else emit.logical_not(condition)).id)
        self.depth += 1
        try:
            other = self._operand(node, operand)
            if isinstance(other, Matrix) or (isinstance(other, Expr) and other.shape):
                raise WujiTypeError("`and` and `or` cannot combine a scalar with a vector")
            dtype = _logical_type(first, other)
            var = self.cx.new_var("both" if is_and else "either", dtype)
            var.store(emit.convert(other, dtype))
        finally:
            self.depth -= 1
        self.b.begin_else()
        var.store(emit.convert(first, dtype))
        self.b.end_if()
        return var.load()

    def visit_Compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        result: Any = None
        for op, following in zip(node.ops, node.comparators, strict=True):
            right = self.value(following)
            if not self.static_depth:
                self._check_comparable(node.left, left, right)
                self._check_comparable(following, right, left)
            one = self._compare(op, left, right)
            result = one if result is None else (
                ops.logical_and(result, one) if is_device(result) or is_device(one) else result and one
            )
            left = right
        return result

    def _check_comparable(self, node: ast.expr, value: Any, other: Any) -> None:
        """Refuse to compare a field or array with a number: Python would find them different."""
        if is_device(other) or emit.is_number(other):
            refuse_whole(value, f"cannot be compared with {emit.describe(other)}", ast.unparse(node))

    def _compare(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        kind = type(op)
        if kind in _COMPARE:
            dual, plain = _COMPARE[kind]
            if isinstance(left, StructVal) or isinstance(right, StructVal):
                raise WujiTypeError("structs cannot be compared\n  = help: compare their members")
            if isinstance(left, Expr) or isinstance(right, Expr):
                if left is None or right is None or isinstance(left, str) or isinstance(right, str):
                    raise WujiTypeError(f"cannot compare {emit.describe(left)} with {emit.describe(right)}")
                return dual(left, right)
            if emit.is_number(left) and emit.is_number(right):
                return dual(left, right)
            return plain(left, right)
        name = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[kind]
        if not self.static_depth:
            raise WujiSyntaxError(f'Operator "{name}" in Taichi scope is not supported: "{kind.__name__}" is only supported inside `ti.static`')
        if is_device(left) or is_device(right):
            if kind in (ast.Is, ast.IsNot) and (left is None or right is None):
                return kind is ast.IsNot
            if kind in (ast.Is, ast.IsNot):
                raise WujiSyntaxError(f'Operator "{name}" in Taichi scope is not supported for run-time values\n  = help: compare them with `==`')
            raise WujiSyntaxError(f'"{kind.__name__}" is only supported inside `ti.static`: it needs compile-time constants')
        if kind is ast.Is:
            return left is right
        if kind is ast.IsNot:
            return left is not right
        return (left in right) if kind is ast.In else (left not in right)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if not is_device(test):
            if isinstance(test, Matrix):
                return ops.select(test, self.value(node.body), self.value(node.orelse))
            return self.eval(node.body if self.known(node.test, test, "a condition") else node.orelse)
        if test.shape:
            return ops.select(test, self.value(node.body), self.value(node.orelse))
        condition = emit.condition(test, "if")
        if _cheap(node.body) and _cheap(node.orelse):
            return self._choose(condition, self.value(node.body), self.value(node.orelse))
        from .statements import storage, store_into

        results: list[Any] = []
        self.b.begin_if(condition.id)
        self.depth += 1
        for branch in (node.body, node.orelse):
            if results:
                self.b.begin_else()
            value = self.value(branch)
            ref = storage(self.cx, value, "chosen")
            store_into(ref, value)
            results.append(ref)
        self.depth -= 1
        self.b.end_if()
        return self._choose(condition, *(p.load() if is_device(p) else p for p in results))

    def _choose(self, condition: Expr, a: Any, b: Any) -> Any:
        if isinstance(a, (StructVal, Struct)) and isinstance(b, (StructVal, Struct)):
            a, b = (v.in_kernel() if isinstance(v, Struct) else v for v in (a, b))
            return StructVal(a.ty, {k: self._choose(condition, v, b.members[k]) for k, v in a.members.items()})
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
            return type(a)(self._choose(condition, x, y) for x, y in zip(a, b, strict=True))
        return emit.select(condition, a, b)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.assign(node.target, value)  # type: ignore[attr-defined]
        return self.value(node.target)

    # Subscripts and attributes.
    def visit_Slice(self, node: ast.Slice) -> Any:
        return slice(*(None if p is None else self.value(p) for p in (node.lower, node.upper, node.step)))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        base = self.eval(node.value)
        if isinstance(base, Field):
            self.at(node)
            return element_of_field(self.cx, base, self._indices(node.slice))
        if isinstance(base, (ArrayVal, DynamicList)) or hasattr(base, "_wuji_subscript"):
            self.at(node)
            indices = self._indices(node.slice)
            if isinstance(base, ArrayVal):
                _check_signs(indices)
            return base._wuji_subscript(self.cx, indices)
        at = self.value(node.slice)
        if isinstance(base, (Expr, Matrix)):
            _check_signs(at if isinstance(at, tuple) else (at,))
        if isinstance(base, Expr):
            self.at(node)
            return base[at]
        if isinstance(base, Matrix):
            parts = at if isinstance(at, tuple) else (at,)
            if any(isinstance(p, Expr) for p in parts):
                return in_kernel(base)[at]
            return base[at]
        if isinstance(base, StructVal):
            raise WujiTypeError(f"{base.ty} has members, not indices")
        if is_device(at) or isinstance(at, tuple) and any(is_device(p) for p in at):
            if isinstance(base, (list, tuple)) and base and all(emit.is_number(x) or isinstance(x, Expr) for x in base):
                return in_kernel(list(base))[at]
            raise WujiTypeError(
                f"{emit.describe(base)} is a Python object; it cannot be indexed with a run-time value\n"
                "  = help: use a field, an array, or a `ti.Vector`"
            )
        return base[at]

    def _indices(self, node: ast.expr) -> list[Any]:
        """Evaluate the indices of an element. Vectors are flattened."""
        if isinstance(node, ast.Tuple):
            parts = self._items(node.elts)
        else:
            parts = [self.value(node)]
        out: list[Any] = []
        for part in parts:
            if part is None:
                continue
            if isinstance(part, (list, tuple, Matrix)):
                out.extend(part)
            elif isinstance(part, Expr) and part.shape:
                out.extend(emit.components(part))
            elif isinstance(part, slice):
                raise WujiSyntaxError("fields and arrays do not support index of slice type in a kernel\n  = help: index one element at a time")
            else:
                out.append(part)
        return out

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        base = self.eval(node.value)
        name = node.attr
        if isinstance(base, StructVal):
            if name in base.members:
                return base.members[name]
            method = base.ty.methods.get(name)
            if method is not None:
                from ..func import bind_struct_method

                return bind_struct_method(method, base)
            if name in ("keys", "items", "entries", "to_dict"):
                return lambda *_: base.members
            raise AttributeError(f"{base.ty} has no member `{name}`")
        return getattr(base, name)


def _check_signs(indices: Sequence[Any]) -> None:
    """In a Taichi program, refuse negative constants as indices of vectors and arrays. For vectors, they otherwise count from the end."""
    if not dtypes.defaults.lenient:
        return
    for index in indices:
        ends = (index.start, index.stop) if isinstance(index, slice) else (index,)
        if any(emit.is_number(end) and end < 0 for end in ends):
            raise WujiSyntaxError("Negative indices are not supported in Taichi kernels.\n  = help: count from the start, as in `v[v.n - 1]`")


# The most syntax nodes of a cheap expression.
_CHEAP = 64


def _cheap(node: ast.expr) -> bool:
    """Return whether an expression is cheap and has no side effects."""
    return sum(1 for _ in itertools.islice(ast.walk(node), _CHEAP + 1)) <= _CHEAP and _simple(node)


def _simple(node: ast.expr) -> bool:
    if isinstance(node, (ast.Constant, ast.Name)):
        return True
    if isinstance(node, ast.Attribute):
        return _simple(node.value)
    if isinstance(node, ast.UnaryOp):
        return _simple(node.operand)
    if isinstance(node, ast.Compare):
        return _simple(node.left) and all(_simple(c) for c in node.comparators)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and _simple(node.left) and _simple(node.right)
    if isinstance(node, ast.Subscript):
        # A component of a variable.
        return isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    return False


def _logical_type(a: Any, b: Any) -> dtypes.DataType:
    """Return the result type of `and` and `or`, which return the deciding operand, as in Python."""
    first, second = emit.element(a), emit.element(b)
    return dtypes.u1 if first is second is dtypes.u1 else dtypes.promote(first, second)


def _logical(is_and: bool, a: Any, b: Any) -> Any:
    vectors = any(isinstance(x, Matrix) or (isinstance(x, Expr) and x.shape) for x in (a, b))
    if vectors or _logical_type(a, b) is dtypes.u1:
        return (ops.logical_and if is_and else ops.logical_or)(a, b)
    return emit.select(emit.truth(a), b, a) if is_and else emit.select(emit.truth(a), a, b)


def _has_run_time_values(values: Any) -> bool:
    """Return whether the values of a format are not all constants."""
    several = values.values() if isinstance(values, dict) else values if isinstance(values, tuple) else (values,)
    return any(is_device(value) or isinstance(value, (Matrix, Struct)) for value in several)
