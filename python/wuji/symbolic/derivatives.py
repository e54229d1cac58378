"""Derivatives of traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import not_traceable
from .sparse import SparseArray, from_rows
from .symbols import Nodes, Symbolic, Tracer, flattened, lift, nodes_of, wrap


def _operands(value: Any, variables: Any) -> tuple[Tracer, Nodes, Nodes]:
    symbolic = next((v for v in (value, variables) if isinstance(v, Symbolic)), None)
    if symbolic is None:
        raise not_traceable("derivatives need symbolic values", "call it in a function that is traced")
    tracer = symbolic._tracer
    (values, mask), (by, by_mask) = lift(tracer, value), lift(tracer, variables)
    if mask or by_mask:
        raise not_traceable("truth values have no derivatives")
    return tracer, values, by


def _scalar(nodes: Nodes) -> int:
    if nodes.size != 1:
        raise not_traceable(f"the derivatives of one value are needed, not of {nodes.size}", "sum the values, or use `jacobian`")
    return int(nodes.reshape(-1)[0])


def gradient(value: Any, variables: Any) -> Any:
    """Return the derivatives of a value by variables, in their shape: inputs, or other values that are then taken to be independent."""
    tracer, values, by = _operands(value, variables)
    slopes = tracer.call(tracer.native.gradient, _scalar(values), flattened(by))
    return wrap(tracer, nodes_of(slopes).reshape(by.shape))


def jacobian(values: Any, variables: Any) -> SparseArray:
    """Return the derivatives of values by variables: a row for each value, a column for each variable.

    The pattern has the derivatives that are not zero for all inputs.
    """
    tracer, rows, by = _operands(values, variables)
    found = tracer.call(tracer.native.jacobian, flattened(rows), flattened(by))
    return from_rows(tracer, (rows.size, by.size), found)


def hessian(value: Any, variables: Any) -> SparseArray:
    """Return the second derivatives of a value by variables, a symmetric matrix.

    The pattern has the derivatives that are not zero for all inputs.
    """
    tracer, values, by = _operands(value, variables)
    found = tracer.call(tracer.native.hessian, _scalar(values), flattened(by))
    size = int(np.prod(by.shape, dtype=int))
    return from_rows(tracer, (size, size), found)


def project_definite(matrices: Any) -> Any:
    """Return the nearest positive semidefinite matrices to symmetric ones: negative eigenvalues become zero.

    The last two axes are those of a matrix. Newton's method needs it for the Hessians of elements; it pays for small matrices.
    """
    if not isinstance(matrices, Symbolic):
        raise not_traceable("a projection needs symbolic values", "call it in a function that is traced")
    tracer = matrices._tracer
    nodes, mask = lift(tracer, matrices)
    if mask or nodes.ndim < 2 or nodes.shape[-1] != nodes.shape[-2]:
        raise not_traceable(f"an array of shape {nodes.shape} has no square matrices of numbers", "the last two axes are those of a matrix")
    if nodes.size == 0:
        return wrap(tracer, nodes)
    found = tracer.call(tracer.native.project_definite, flattened(nodes), nodes.shape[-1])
    return wrap(tracer, nodes_of(found).reshape(nodes.shape))
