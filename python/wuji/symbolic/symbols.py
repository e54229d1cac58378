"""Symbolic scalars and arrays: arrays of nodes of a trace, which NumPy computes with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .errors import depends_on_values, not_a_number, not_traceable, outside_of_trace, raised

Nodes = npt.NDArray[np.uint32]
# NumPy's functions take symbols, which their types do not say.
_np: Any = np


class Tracer:
    """A trace under construction. Its nodes are numbers."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.native = self.call(_native.Tracer, list(lengths))
        self.open = True

    @staticmethod
    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except _native.NativeError as e:
            raise raised(e) from None

    def constants(self, values: Any) -> Nodes:
        """Return the nodes of numbers."""
        values = np.asarray(values, dtype=np.float64)
        flat = np.ascontiguousarray(values).reshape(-1)
        return nodes_of(self.call(self.native.constants, flat)).reshape(values.shape)

    def apply(self, op: str, *operands: Nodes) -> Nodes:
        """Apply an operation element by element, with broadcasting."""
        same = np.broadcast_arrays(*operands)
        flat = [flattened(a) for a in same]
        return nodes_of(self.call(self.native.apply, op, flat)).reshape(same[0].shape)

    def reduce(self, op: str, nodes: Nodes, axis: int) -> Nodes:
        """Reduce an axis that is not empty."""
        last = np.moveaxis(nodes, axis, -1)
        return nodes_of(self.call(self.native.reduce, op, flattened(last), last.shape[-1])).reshape(last.shape[:-1])


_tracers: ContextVar[tuple[Tracer, ...]] = ContextVar("wuji_tracers", default=())


def current_tracer() -> Tracer:
    """Return the tracer of the function that is traced."""
    tracers = _tracers.get()
    if not tracers:
        raise outside_of_trace()
    return tracers[-1]


def nodes_of(data: bytes) -> Nodes:
    return np.frombuffer(data, dtype=np.uint32)


def flattened(nodes: Nodes) -> Nodes:
    return np.ascontiguousarray(nodes).reshape(-1)


def _operators(ufunc: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return the methods of an operator and of the reflected one."""

    def method(self: Any, other: Any) -> Any:
        # Sparse arrays have operators of their own.
        return NotImplemented if getattr(other, "__array_ufunc__", ufunc) is None else ufunc(self, other)

    def reflected(self: Any, other: Any) -> Any:
        return NotImplemented if getattr(other, "__array_ufunc__", ufunc) is None else ufunc(other, self)

    return method, reflected


class Symbolic:
    """What scalars and arrays share: nodes of a tracer, of numbers or of truth values."""

    __slots__ = ("_mask", "_nodes", "_tracer")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tracer: Tracer, nodes: Nodes, mask: bool = False) -> None:
        self._tracer = tracer
        self._nodes = nodes
        self._mask = mask

    @property
    def shape(self) -> tuple[int, ...]:
        return self._nodes.shape

    @property
    def ndim(self) -> int:
        return self._nodes.ndim

    @property
    def size(self) -> int:
        return self._nodes.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(bool if self._mask else np.float64)

    def _constant(self) -> float | None:
        """Return the value, if it is one constant."""
        if not self._tracer.open:
            raise outside_of_trace()
        if self.size != 1:
            return None
        value: float | None = self._tracer.call(self._tracer.native.value, int(self._nodes.reshape(-1)[0]))
        return value

    def _number(self, question: str) -> float:
        value = self._constant()
        if value is None:
            raise depends_on_values(question)
        return value

    def __bool__(self) -> bool:
        return self._number("a branch") != 0.0

    def __float__(self) -> float:
        value = self._constant()
        if value is None:
            raise not_a_number("a conversion to a number")
        return value

    def __int__(self) -> int:
        return int(self._number("a conversion to a whole number"))

    def __index__(self) -> int:
        raise depends_on_values("an index")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        from .functions import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, options: Any) -> Any:
        from .functions import apply_function

        return apply_function(function, arguments, options)

    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.true_divide)
    __floordiv__, __rfloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__ = _operators(np.remainder)
    __pow__, __rpow__ = _operators(np.power)
    __matmul__, __rmatmul__ = _operators(np.matmul)
    __and__, __rand__ = _operators(np.logical_and)
    __or__, __ror__ = _operators(np.logical_or)
    __lt__, __le__ = _operators(np.less)[0], _operators(np.less_equal)[0]
    __gt__, __ge__ = _operators(np.greater)[0], _operators(np.greater_equal)[0]
    __eq__, __ne__ = _operators(np.equal)[0], _operators(np.not_equal)[0]

    def __neg__(self) -> Any:
        return np.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __invert__(self) -> Any:
        return np.logical_not(self)


class Sym(Symbolic):
    """A symbolic scalar. Arrays of objects can hold it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Sym(n{int(self._nodes)})"


def _method(name: str) -> Callable[[Sym], Any]:
    ufunc = getattr(np, name)
    return lambda self: ufunc(self)


# What NumPy calls on elements of arrays of objects.
for _name in (
    "sqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh floor ceil trunc"
).split():
    setattr(Sym, _name, _method(_name))
Sym.conjugate = lambda self: self  # type: ignore[attr-defined]


class Array(Symbolic):
    """A symbolic array with at least one axis. Slices are views, as in NumPy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Array(shape={self.shape})"

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        return wrap(self._tracer, self._nodes[_plain_key(key)], self._mask)

    def __setitem__(self, key: Any, value: Any) -> None:
        nodes, mask = lift(self._tracer, value)
        if mask != self._mask and nodes.size:
            raise not_traceable("truth values and numbers cannot be in one symbolic array", "use `np.where(condition, 1.0, 0.0)`")
        self._nodes[_plain_key(key)] = nodes

    def _assign(self, value: Any) -> Array:
        self[...] = value
        return self

    def __iadd__(self, other: Any) -> Array:
        return self._assign(self + other)

    def __isub__(self, other: Any) -> Array:
        return self._assign(self - other)

    def __imul__(self, other: Any) -> Array:
        return self._assign(self * other)

    def __itruediv__(self, other: Any) -> Array:
        return self._assign(self / other)

    @property
    def T(self) -> Array:
        return Array(self._tracer, self._nodes.T, self._mask)

    @property
    def flat(self) -> Iterator[Any]:
        return iter(self.ravel())

    def reshape(self, *shape: Any) -> Any:
        return wrap(self._tracer, self._nodes.reshape(*shape), self._mask)

    def ravel(self) -> Array:
        return Array(self._tracer, self._nodes.reshape(-1), self._mask)

    flatten = ravel

    def transpose(self, *axes: Any) -> Array:
        return Array(self._tracer, self._nodes.transpose(*axes), self._mask)

    def copy(self) -> Array:
        return Array(self._tracer, self._nodes.copy(), self._mask)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.add.reduce(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.multiply.reduce(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.minimum.reduce(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.maximum.reduce(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        total = self.sum(axis, keepdims)
        count = self.size / max(total.size, 1)
        return total / count

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.logical_and.reduce(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _np.logical_or.reduce(self, axis=axis, keepdims=keepdims)

    def dot(self, other: Any) -> Any:
        return _np.dot(self, other)


def _plain_key(key: Any) -> Any:
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, Symbolic):
            raise depends_on_values("an index")
    return key


def wrap(tracer: Tracer, nodes: Any, mask: bool = False) -> Any:
    """Return nodes as a scalar or an array."""
    nodes = np.asarray(nodes, dtype=np.uint32)
    if nodes.ndim == 0:
        return Sym(tracer, nodes, mask)
    return Array(tracer, nodes if nodes.flags.writeable else nodes.copy(), mask)


def lift(tracer: Tracer, value: Any) -> tuple[Nodes, bool]:
    """Return the nodes of a symbol, number, array or nested list, and whether they are truth values."""
    if isinstance(value, Symbolic):
        if value._tracer is not tracer or not tracer.open:
            raise outside_of_trace()
        return value._nodes, value._mask
    if not isinstance(value, np.ndarray):
        if hasattr(value, "to_numpy"):
            value = value.to_numpy()
        value = np.asarray(value)
    if value.dtype == object:
        elements = [lift(tracer, element) for element in value.reshape(-1)]
        masks = {mask for _, mask in elements}
        if len(masks) > 1:
            raise not_traceable("truth values and numbers cannot be in one symbolic array", "use `np.where(condition, 1.0, 0.0)`")
        nodes = np.array([np.asarray(node).reshape(()) for node, _ in elements], dtype=np.uint32)
        return nodes.reshape(value.shape), masks == {True}
    if value.dtype.kind not in "biuf":
        raise not_traceable(f"values of type `{value.dtype}` cannot be traced", "use real numbers")
    return tracer.constants(value), value.dtype.kind == "b"


def array(values: Any) -> Any:
    """Return numbers and symbols, in any nesting of lists, as a symbolic array."""
    tracer = current_tracer()
    nodes, mask = lift(tracer, values)
    return wrap(tracer, nodes.copy(), mask)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where the condition holds and ``b`` elsewhere. Both are computed."""
    tracer = current_tracer()
    chosen, mask = lift(tracer, condition)
    if not mask:
        chosen = tracer.apply("not", tracer.apply("eq", chosen, tracer.constants(0.0)))
    (first, first_mask), (second, second_mask) = lift(tracer, a), lift(tracer, b)
    if first_mask or second_mask:
        raise not_traceable("`where` chooses between numbers, not between truth values", "combine them with `&`, `|` and `~`")
    return wrap(tracer, tracer.apply("select", chosen, first, second))


def block(*values: Any) -> None:
    """Ask that values are computed together: for entries of a small matrix that share work. It is a hint."""
    tracer = current_tracer()
    nodes = [flattened(lift(tracer, value)[0]) for value in values]
    tracer.call(tracer.native.block, functools.reduce(lambda a, b: np.concatenate([a, b]), nodes))
