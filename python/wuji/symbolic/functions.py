"""NumPy's functions on symbols: universal functions, reductions, and functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import depends_on_values, not_a_number, not_traceable, outside_of_trace
from .symbols import Array, Nodes, Sym, Symbolic, Tracer, flattened, lift, where, wrap

# One operation each.
_OPERATIONS: dict[Any, str] = {
    np.add: "add", np.multiply: "mul", np.true_divide: "div", np.fmod: "rem", np.power: "pow", np.float_power: "pow",
    np.minimum: "min", np.fmin: "min", np.maximum: "max", np.fmax: "max", np.arctan2: "atan2", np.negative: "neg",
    np.absolute: "abs", np.fabs: "abs", np.floor: "floor", np.ceil: "ceil", np.trunc: "trunc", np.sqrt: "sqrt", np.sin: "sin",
    np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh",
    np.tanh: "tanh", np.exp: "exp", np.exp2: "exp2", np.log: "log", np.log2: "log2", np.log10: "log10",
}  # fmt: skip
_COMPARISONS: dict[Any, tuple[str, bool]] = {
    np.less: ("lt", False), np.less_equal: ("le", False), np.greater: ("lt", True), np.greater_equal: ("le", True),
    np.equal: ("eq", False),
}  # fmt: skip
_LOGIC: dict[Any, str] = {np.logical_and: "and", np.bitwise_and: "and", np.logical_or: "or", np.bitwise_or: "or"}
# Reductions of no elements.
_NEUTRAL: dict[Any, float] = {np.add: 0.0, np.multiply: 1.0}
_REDUCTIONS = (np.add, np.multiply, np.minimum, np.maximum)


def _sign(x: Any) -> Any:
    return where(x < 0.0, -1.0, where(x > 0.0, 1.0, 0.0))


# In terms of other functions.
_COMPOSED: dict[Any, Callable[..., Any]] = {
    np.subtract: lambda a, b: np.add(a, np.negative(b)),
    np.positive: lambda a: a,
    np.square: lambda a: a * a,
    np.reciprocal: lambda a: 1.0 / a,
    np.hypot: lambda a, b: np.sqrt(a * a + b * b),
    np.expm1: lambda a: np.exp(a) - 1.0,
    np.log1p: lambda a: np.log(a + 1.0),
    np.arcsinh: lambda a: np.log(a + np.sqrt(a * a + 1.0)),
    np.arccosh: lambda a: np.log(a + np.sqrt(a * a - 1.0)),
    np.arctanh: lambda a: 0.5 * np.log((1.0 + a) / (1.0 - a)),
    np.cbrt: lambda a: _sign(a) * np.power(np.absolute(a), 1.0 / 3.0),
    np.sign: _sign,
    np.copysign: lambda a, b: np.absolute(a) * where(b < 0.0, -1.0, 1.0),
    np.floor_divide: lambda a, b: np.floor(a / b),
    np.remainder: lambda a, b: a - b * np.floor(a / b),
    np.deg2rad: lambda a: a * (math.pi / 180.0),
    np.radians: lambda a: a * (math.pi / 180.0),
    np.rad2deg: lambda a: a * (180.0 / math.pi),
    np.degrees: lambda a: a * (180.0 / math.pi),
    np.not_equal: lambda a, b: np.logical_not(np.equal(a, b)),
    np.conjugate: lambda a: a,
}
_QUESTIONS = (np.isnan, np.isfinite, np.isinf, np.signbit)


def _tracer_of(values: Any) -> Tracer:
    for value in values:
        if isinstance(value, Symbolic):
            if not value._tracer.open:
                raise outside_of_trace()
            return value._tracer
        if isinstance(value, np.ndarray) and value.dtype == object:
            found = next((e for e in value.reshape(-1) if isinstance(e, Symbolic)), None)
            if found is not None:
                return found._tracer
    raise outside_of_trace()


def _numbers(tracer: Tracer, name: str, values: Any) -> list[Nodes]:
    lifted = [lift(tracer, value) for value in values]
    if any(mask and isinstance(value, Symbolic) for (_, mask), value in zip(lifted, values, strict=True)):
        raise not_traceable(f"`{name}` takes numbers, not truth values", "use `np.where(condition, 1.0, 0.0)`")
    return [nodes for nodes, _ in lifted]


def _masks(tracer: Tracer, name: str, values: Any) -> list[Nodes]:
    lifted = [lift(tracer, value) for value in values]
    if not all(mask for _, mask in lifted):
        raise not_traceable(f"`{name}` takes truth values, not numbers", "compare the numbers first: `x != 0.0`")
    return [nodes for nodes, _ in lifted]


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Apply a universal function to symbols and numbers."""
    name = f"np.{ufunc.__name__}"
    if "out" in options:
        out = options.pop("out")[0]
        if not isinstance(out, Array):
            raise not_a_number(f"a result of `{name}` in an array of numbers")
        out[...] = apply_ufunc(ufunc, method, inputs, options)
        return out
    if method == "reduce":
        return _reduce(ufunc, name, *inputs, **options)
    if method == "at" and ufunc is np.add:
        return _add_at(*inputs)
    for option in ("dtype", "casting", "order", "subok"):
        options.pop(option, None)
    if method != "__call__" or options:
        raise not_traceable(f"`{name}` cannot be traced with `{method}` and {sorted(options)}")
    return _call(ufunc, name, inputs)


def _call(ufunc: np.ufunc, name: str, inputs: tuple[Any, ...]) -> Any:
    tracer = _tracer_of(inputs)
    operation = _OPERATIONS.get(ufunc)
    if operation is not None:
        return wrap(tracer, tracer.apply(operation, *_numbers(tracer, name, inputs)))
    if ufunc in _COMPOSED:
        return _COMPOSED[ufunc](*inputs)
    if ufunc in _COMPARISONS:
        operation, swapped = _COMPARISONS[ufunc]
        a, b = _numbers(tracer, name, inputs)
        return wrap(tracer, tracer.apply(operation, b, a) if swapped else tracer.apply(operation, a, b), True)
    if ufunc in _LOGIC:
        return wrap(tracer, tracer.apply(_LOGIC[ufunc], *_masks(tracer, name, inputs)), True)
    if ufunc in (np.logical_not, np.invert):
        return wrap(tracer, tracer.apply("not", *_masks(tracer, name, inputs)), True)
    if ufunc is np.matmul:
        return _matmul(tracer, *_numbers(tracer, name, inputs))
    if ufunc in _QUESTIONS:
        raise depends_on_values(f"`{name}`")
    raise not_traceable(f"`{name}` cannot be traced", "docs/symbolic.md lists the functions that can")


def _reduce(ufunc: np.ufunc, name: str, value: Any, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    if ufunc in (np.logical_and, np.logical_or):
        operation = _LOGIC[ufunc]
    elif ufunc in _REDUCTIONS:
        operation = _OPERATIONS[ufunc]
    else:
        raise not_traceable(f"reductions with `{name}` cannot be traced")
    if options.get("where", True) is not True or options.get("initial", np._NoValue) not in (np._NoValue, None):
        raise not_traceable(f"`{name}.reduce` cannot be traced with `where` or `initial`")
    tracer = _tracer_of([value])
    nodes, mask = lift(tracer, value)
    axes = range(nodes.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = sorted((a % max(nodes.ndim, 1) for a in axes), reverse=True)
    shape = [1 if a in axes else n for a, n in enumerate(nodes.shape)]
    for a in axes:
        if nodes.shape[a]:
            nodes = tracer.reduce(operation, nodes, a)
        elif ufunc in _NEUTRAL:
            nodes = tracer.constants(np.full(np.delete(nodes.shape, a), _NEUTRAL[ufunc]))
        else:
            raise not_traceable(f"`{name}.reduce` of no elements has no value")
    return wrap(tracer, nodes.reshape(shape) if keepdims else nodes, mask)


def _add_at(target: Any, index: Any, values: Any) -> None:
    if not isinstance(target, Array):
        raise not_a_number("a sum in an array of numbers")
    tracer = target._tracer
    positions = np.arange(target.size, dtype=np.int64).reshape(target.shape)[index]
    nodes = np.broadcast_to(_numbers(tracer, "np.add.at", [values])[0], positions.shape)
    flat = np.ascontiguousarray(positions).reshape(-1)
    sums = tracer.call(tracer.native.add_at, flattened(target._nodes), flat, flattened(nodes))
    target._nodes[...] = np.frombuffer(sums, dtype=np.uint32).reshape(target.shape)


def _matmul(tracer: Tracer, a: Nodes, b: Nodes) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        raise not_traceable("`np.matmul` takes arrays, not scalars", "use `*`")
    left = a[np.newaxis, :] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise not_traceable(f"shapes {a.shape} and {b.shape} cannot be multiplied")
    if not left.shape[-1]:
        shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2]) + (left.shape[-2], right.shape[-1])
        product = tracer.constants(np.zeros(shape))
    else:
        # rows, columns, terms
        terms = tracer.apply("mul", left[..., :, np.newaxis, :], np.swapaxes(right, -1, -2)[..., np.newaxis, :, :])
        product = tracer.reduce("add", terms, -1)
    if a.ndim == 1:
        product = product[..., 0, :]
    if b.ndim == 1:
        product = product[..., 0]
    return wrap(tracer, product)


def _dot(a: Any, b: Any) -> Any:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if np.ndim(b) > 2:
        raise not_traceable("`np.dot` cannot be traced for more than two axes", "use `@`")
    return np.matmul(a, b)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2, "fro"):
        raise not_traceable("only the Euclidean norm can be traced")
    return np.sqrt(_reduction(np.add)(x * x, axis, keepdims))


def _cross(a: Any, b: Any) -> Any:
    (a0, a1, a2), (b0, b1, b2) = ([v[..., n] for n in range(3)] for v in (a, b))
    return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


def _constant_like(value: float) -> Callable[..., Any]:
    def make(like: Any, *_: Any, **options: Any) -> Any:
        shape = options.get("shape")
        return wrap(like._tracer, like._tracer.constants(np.full(like.shape if shape is None else shape, value)))

    return make


def _reduction(ufunc: Any) -> Callable[..., Any]:
    return lambda a, axis=None, keepdims=False, **_: ufunc.reduce(a, axis=axis, keepdims=keepdims)


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        moved = np.moveaxis(a, axis, 0)
        a = np.moveaxis(moved[1:] - moved[:-1], 0, axis)
    return a


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: where,
    np.dot: _dot,
    np.inner: lambda a, b: np.matmul(a, np.swapaxes(b, -1, -2) if np.ndim(b) > 1 else b),
    np.outer: lambda a, b: np.ravel(a)[:, np.newaxis] * np.ravel(b),
    np.vdot: lambda a, b: np.matmul(np.ravel(a), np.ravel(b)),
    np.cross: _cross,
    np.linalg.norm: _norm,
    np.sum: _reduction(np.add),
    np.prod: _reduction(np.multiply),
    np.min: _reduction(np.minimum),
    np.amin: _reduction(np.minimum),
    np.max: _reduction(np.maximum),
    np.amax: _reduction(np.maximum),
    np.all: _reduction(np.logical_and),
    np.any: _reduction(np.logical_or),
    np.mean: lambda a, axis=None, keepdims=False, **_: a.mean(axis, keepdims),
    np.clip: lambda a, low=None, high=None, **_: np.minimum(
        np.maximum(a, -math.inf if low is None else low), math.inf if high is None else high
    ),
    np.diff: _diff,
    np.zeros_like: _constant_like(0.0),
    np.ones_like: _constant_like(1.0),
    np.full_like: lambda like, value, **options: _constant_like(value)(like, **options),
    np.copy: lambda a: a.copy() if isinstance(a, Array) else a,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}
# These move elements only. The first argument is an array, or a sequence of arrays.
_MOVES = (
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.squeeze, np.expand_dims, np.broadcast_to, np.roll,
    np.flip, np.fliplr, np.flipud, np.rot90, np.take, np.repeat, np.tile, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.diagonal,
)  # fmt: skip
_JOINS = (np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack)


def apply_function(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Apply one of NumPy's other functions to symbols and numbers."""
    known = _FUNCTIONS.get(function)
    if known is not None:
        return known(*arguments, **options)
    if function in _MOVES:
        value, *rest = arguments
        tracer = _tracer_of([value])
        nodes, mask = lift(tracer, value)
        return wrap(tracer, function(nodes, *rest, **options), mask)
    if function in _JOINS:
        parts, *rest = arguments
        tracer = _tracer_of(parts)
        lifted = [lift(tracer, part) for part in parts]
        joined = function([nodes for nodes, _ in lifted], *rest, **options)
        return wrap(tracer, joined, any(mask for _, mask in lifted))
    return _on_objects(function, arguments, options)


def _on_objects(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function on arrays of objects; NumPy computes with their operators."""
    try:
        return _symbolic(function(*_objects(arguments), **_objects(options)))
    except (TypeError, np.linalg.LinAlgError) as e:
        raise not_traceable(f"`np.{getattr(function, '__name__', function)}` cannot be traced: {e}") from None


def _objects(value: Any) -> Any:
    if isinstance(value, Array):
        elements: npt.NDArray[Any] = np.empty(value.size, dtype=object)
        elements[:] = [Sym(value._tracer, np.asarray(node), value._mask) for node in value._nodes.reshape(-1)]
        return elements.reshape(value.shape)
    if isinstance(value, (tuple, list)):
        return type(value)(_objects(v) for v in value)
    if isinstance(value, dict):
        return {k: _objects(v) for k, v in value.items()}
    return value


def _symbolic(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        tracer = _tracer_of([value])
        nodes, mask = lift(tracer, value)
        return wrap(tracer, nodes, mask)
    if isinstance(value, (tuple, list)):
        return type(value)(_symbolic(v) for v in value)
    return value
