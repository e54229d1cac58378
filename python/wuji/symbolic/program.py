"""Traces and compiled programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..exceptions import WujiError
from ..lang import runtime as _runtime
from ..lang.dtypes import need_scalar
from .errors import changed_input, not_traceable, unusable_file
from .sparse import SparseArray, as_sparse, is_scipy
from .symbols import Symbolic, Tracer, _tracers, flattened, lift, wrap

_MAGIC = b"WUJIPYTR"


@dataclass(frozen=True)
class _Shape:
    """What must not change between the trace and a call: a number, an array, or a sparse matrix with its pattern."""

    kind: str  # "scalar", "array", "csr", "csc"
    shape: tuple[int, ...]
    pattern: SparseArray | None = None

    @property
    def size(self) -> int:
        return self.pattern.nnz if self.pattern is not None else int(np.prod(self.shape, dtype=int))

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"a sparse matrix ({self.kind}) of shape {self.shape} with {self.pattern.nnz} entries"
        return "a number" if self.kind == "scalar" else f"an array of shape {self.shape}"

    def to_json(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"kind": self.kind, "shape": list(self.shape)}
        if self.pattern is not None:
            parts |= {"indices": self.pattern.indices.tolist(), "indptr": self.pattern.indptr.tolist()}
        return parts

    @staticmethod
    def from_json(parts: dict[str, Any]) -> _Shape:
        shape = tuple(int(n) for n in parts["shape"])
        if parts["kind"] not in ("csr", "csc"):
            return _Shape(str(parts["kind"]), shape)
        return _Shape(parts["kind"], shape, _pattern(parts["indices"], parts["indptr"], shape, parts["kind"]))


def _pattern(indices: Any, indptr: Any, shape: Any, format: str) -> SparseArray:
    return SparseArray(np.zeros(len(indices)), indices, indptr, shape, format)


def _read(value: Any) -> tuple[_Shape, npt.NDArray[Any], Any]:
    """Return the shape of an input, its numbers, and the class of a SciPy matrix."""
    if isinstance(value, SparseArray) or is_scipy(value):
        matrix = as_sparse(value)
        pattern = _pattern(matrix.indices, matrix.indptr, matrix.shape, matrix.format)
        return _Shape(matrix.format, matrix.shape, pattern), np.asarray(matrix.data), None if matrix is value else type(value)
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise not_traceable(f"an input of type `{numbers.dtype}` cannot be traced", "pass real numbers")
    return _Shape("scalar" if numbers.ndim == 0 else "array", numbers.shape), numbers.reshape(-1), None


def _symbols(tracer: Tracer, shape: _Shape, first: int) -> Any:
    nodes = np.arange(first, first + shape.size, dtype=np.uint32)
    if shape.pattern is not None:
        return shape.pattern._with(wrap(tracer, nodes))
    return wrap(tracer, nodes.reshape(shape.shape))


# The structure of outputs: ["leaf", number, shape], ["tuple" or "list", parts], ["dict", keys, parts].
_Structure = list[Any]


def _split(tracer: Tracer, value: Any, leaves: list[Any]) -> _Structure:
    if isinstance(value, dict):
        return ["dict", list(value), [_split(tracer, v, leaves) for v in value.values()]]
    if isinstance(value, tuple):
        return ["tuple", [_split(tracer, v, leaves) for v in value]]
    if isinstance(value, list):
        return ["list", [_split(tracer, v, leaves) for v in value]]
    if isinstance(value, SparseArray) or is_scipy(value):
        matrix = as_sparse(value)
        nodes, mask = lift(tracer, matrix.data)
        shape = _Shape(matrix.format, matrix.shape, _pattern(matrix.indices, matrix.indptr, matrix.shape, matrix.format))
    else:
        if not isinstance(value, (Symbolic, np.ndarray, float, int, np.generic)):
            raise not_traceable(
                f"a traced function returned {type(value).__name__}",
                "return symbols, arrays, sparse arrays, and tuples, lists or dicts of them",
            )
        nodes, mask = lift(tracer, value)
        shape = _Shape("scalar" if nodes.ndim == 0 else "array", nodes.shape)
    if mask:
        raise not_traceable("a traced function returned truth values", "return numbers: `np.where(condition, 1.0, 0.0)`")
    leaves.append(flattened(nodes))
    return ["leaf", len(leaves) - 1, shape]


def _join(structure: _Structure, values: list[npt.NDArray[Any]], scipy: Any) -> Any:
    kind, *parts = structure
    if kind == "leaf":
        number, shape = parts
        if shape.pattern is not None:
            matrix = shape.pattern._with(values[number])
            return matrix if scipy is None else _as_scipy(matrix, scipy)
        return values[number].reshape(shape.shape)[()]
    if kind == "dict":
        return {k: _join(v, values, scipy) for k, v in zip(*parts, strict=True)}
    joined = [_join(part, values, scipy) for part in parts[0]]
    return tuple(joined) if kind == "tuple" else joined


def _as_scipy(matrix: SparseArray, like: Any) -> Any:
    """Return a SciPy matrix, or a SciPy array, as the inputs were."""
    import scipy.sparse

    found = matrix.to_scipy()
    if issubclass(like, scipy.sparse.spmatrix):
        kind = scipy.sparse.csr_matrix if matrix.format == "csr" else scipy.sparse.csc_matrix
        return kind(found)
    return found


def _structure_to_json(structure: _Structure) -> _Structure:
    kind, *parts = structure
    if kind == "leaf":
        return ["leaf", parts[0], parts[1].to_json()]
    if kind == "dict":
        return ["dict", parts[0], [_structure_to_json(part) for part in parts[1]]]
    return [kind, [_structure_to_json(part) for part in parts[0]]]


def _structure_from_json(structure: _Structure) -> _Structure:
    kind, *parts = structure
    if kind == "leaf":
        return ["leaf", int(parts[0]), _Shape.from_json(parts[1])]
    if kind == "dict":
        return ["dict", parts[0], [_structure_from_json(part) for part in parts[1]]]
    if kind not in ("tuple", "list"):
        raise ValueError(f"`{kind}` is not a structure")
    return [kind, [_structure_from_json(part) for part in parts[0]]]


def _leaves(structure: _Structure) -> list[tuple[int, _Shape]]:
    kind, *parts = structure
    if kind == "leaf":
        return [(parts[0], parts[1])]
    return [leaf for part in parts[-1] for leaf in _leaves(part)]


class Program:
    """A compiled trace. Calls take inputs of the same shapes and patterns as the trace, and new numbers."""

    def __init__(self, native: _native.SymbolicProgram, world: Any, dtype: str, inputs: list[_Shape], outputs: _Structure) -> None:
        self._native = native
        self._world = world
        self._dtype = np.dtype(np.float32 if dtype == "f32" else np.float64)
        self._inputs = inputs
        self._outputs = outputs
        self._sizes = [shape.size for _, shape in _leaves(outputs)]

    def __call__(self, *inputs: Any) -> Any:
        """Run it on new numbers. Sparse results are SciPy's if an input was."""
        if len(inputs) != len(self._inputs):
            raise changed_input(f"a program of {len(self._inputs)} inputs was given {len(inputs)}")
        numbers, scipy = [], None
        for position, (given, traced) in enumerate(zip(inputs, self._inputs, strict=True)):
            shape, values, kind = _read(given)
            scipy = scipy or kind
            if (shape.kind, shape.shape, shape.size) != (traced.kind, traced.shape, traced.size):
                raise changed_input(f"input {position} of a program was {traced} when it was traced, and is {shape}")
            if shape.pattern is not None and traced.pattern is not None and not shape.pattern.same_pattern(traced.pattern):
                raise changed_input(f"input {position} of a program has another sparsity pattern than when it was traced")
            numbers.append(np.ascontiguousarray(values, dtype=self._dtype))
        results = [np.empty(n, dtype=self._dtype) for n in self._sizes]
        Tracer.call(self._native.run, numbers, results)
        return _join(self._outputs, results, scipy)

    def explain(self) -> str:
        """Describe the groups of expressions, the sizes of tables, and the bytes that a call moves."""
        return self._native.explain()


class Trace:
    """A recorded computation. `compile` makes a program of it."""

    def __init__(self, native: _native.SymbolicTrace, inputs: list[_Shape], outputs: _Structure, dtype: str) -> None:
        self._native = native
        self._inputs = inputs
        self._outputs = outputs
        self._dtype = dtype

    def compile(self, dtype: Any = None, **options: Any) -> Program:
        """Compile it for the current world. ``options`` are those of docs/symbolic.md, such as ``sums=False``."""
        name = self._dtype if dtype is None else need_scalar(dtype).name
        if name not in ("f32", "f64"):
            raise not_traceable(f"a traced program computes in `f32` or `f64`, not in `{name}`")
        world = _runtime.current()
        native = Tracer.call(self._native.compile, world.native, name, options)
        return Program(native, world, name, self._inputs, self._outputs)

    def statistics(self) -> str:
        """Describe the size of the trace, and how often each operation occurs."""
        return self._native.statistics()

    def dot(self) -> str:
        """Return a drawing of a small trace, for Graphviz."""
        text: str = Tracer.call(self._native.dot)
        return text

    def save(self, path: Any) -> None:
        """Write a file that `load` reads."""
        described = {
            "inputs": [shape.to_json() for shape in self._inputs],
            "outputs": _structure_to_json(self._outputs),
            "dtype": self._dtype,
        }
        header = json.dumps(described).encode()
        Path(path).write_bytes(_MAGIC + len(header).to_bytes(8, "little") + header + self._native.to_bytes())


def load(path: Any) -> Trace:
    """Read a trace from a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise unusable_file(f"`{path}` cannot be read: {e}") from None
    if not data.startswith(_MAGIC):
        raise unusable_file("it is not the file of a trace")
    start = len(_MAGIC) + 8
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        described = json.loads(data[start:end])
        inputs = [_Shape.from_json(parts) for parts in described["inputs"]]
        outputs = _structure_from_json(described["outputs"])
        dtype = {"f32": "f32", "f64": "f64"}[described["dtype"]]
    except (ValueError, KeyError, TypeError, IndexError, WujiError):
        raise unusable_file("its description is damaged") from None
    native = Tracer.call(_native.SymbolicTrace.from_bytes, data[end:])
    described_lengths = dict(_leaves(outputs))
    lengths = ([shape.size for shape in inputs], [described_lengths[n].size for n in sorted(described_lengths)])
    if native.lengths() != lengths or sorted(described_lengths) != list(range(len(lengths[1]))):
        raise unusable_file("its description does not fit its contents")
    return Trace(native, inputs, outputs, dtype)


def record(function: Callable[..., Any], *inputs: Any) -> Trace:
    """Run a function once on symbols in the shape of the inputs, and return what it computes."""
    read = [_read(value) for value in inputs]
    shapes = [shape for shape, _, _ in read]
    tracer = Tracer([shape.size for shape in shapes])
    starts = np.concatenate([[0], np.cumsum([shape.size for shape in shapes], dtype=np.int64)])
    token = _tracers.set((*_tracers.get(), tracer))
    leaves: list[Any] = []
    try:
        symbols = [_symbols(tracer, shape, int(start)) for shape, start in zip(shapes, starts, strict=False)]
        structure = _split(tracer, function(*symbols), leaves)
        native = Tracer.call(tracer.native.finish, leaves)
    finally:
        _tracers.reset(token)
        tracer.open = False
        tracer.native.discard()
    single = read and all(values.dtype == np.float32 for _, values, _ in read)
    return Trace(native, shapes, structure, "f32" if single else "f64")


def trace(function: Callable[..., Any], *inputs: Any, dtype: Any = None, **options: Any) -> Program:
    """Run a function once on symbols, and compile what it computes for the current world.

    Args:
        function: Takes a symbol for each number, a symbolic array for each array, a `SparseArray` for each sparse matrix. It returns
            symbols, arrays, sparse arrays, and tuples, lists or dicts of them.
        inputs: Numbers, arrays, fields, and sparse matrices of SciPy or this module. Only shapes and patterns matter.
        dtype: ``ti.f32`` or ``ti.f64``; by default ``f32`` if all inputs are single precision.
        options: Switches of the compiler, as in docs/symbolic.md.
    """
    return record(function, *inputs).compile(dtype, **options)
