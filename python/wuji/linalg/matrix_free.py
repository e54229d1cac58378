"""Equations whose matrix is a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import dtypes, ops, runtime
from ..lang.compound import template
from ..lang.field import Field, MatrixField, ScalarField, field
from ..lang.kernel import kernel
from ..lang.ndrange import grouped
from ..lang.static import static


class LinearOperator:
    """A matrix that is known by what it does: a kernel of two fields writes to the second what the matrix makes of the first."""

    def __init__(self, matvec_kernel: Any) -> None:
        self._matvec = matvec_kernel

    def matvec(self, x: Any, Ax: Any) -> None:
        """Writes to ``Ax`` what the matrix makes of ``x``."""
        if x.shape != Ax.shape:
            raise WujiRuntimeError(f"`LinearOperator.matvec` of fields of shapes {x.shape} and {Ax.shape}, which are not the same")
        self._matvec(x, Ax)


@kernel
def _dot(a: template(), b: template()) -> dtypes.f64:  # type: ignore[valid-type]
    total = ops.cast(0.0, dtypes.f64)
    for I in grouped(a):  # noqa: E741
        product = a[I] * b[I]
        if static(isinstance(a, MatrixField)):
            total += ops.cast(product.sum(), dtypes.f64)
        else:
            total += ops.cast(product, dtypes.f64)
    return total  # type: ignore[no-any-return]


@kernel
def _combine(out: template(), a: template(), factor: dtypes.f64, b: template()):  # type: ignore[no-untyped-def,valid-type]
    """``out = a + factor * b``, computed as exactly as fields are."""
    for I in grouped(out):  # noqa: E741
        out[I] = a[I] + ops.cast(factor, static(out.dtype)) * b[I]


def _checked(A: Any, b: Any, x: Any, what: str) -> None:
    if not isinstance(A, LinearOperator):
        raise WujiTypeError(f"`{what}` takes a `LinearOperator`, not {type(A).__name__}")
    for name, value in (("b", b), ("x", x)):
        if not isinstance(value, (ScalarField, MatrixField)):
            raise WujiTypeError(f"`{what}` takes fields; `{name}` is {type(value).__name__}")
    if b.dtype is not x.dtype or type(b) is not type(x) or isinstance(b, MatrixField) and b.type != x.type:
        raise WujiTypeError(f"`{what}`: dtype mismatch: `b` is of {b.dtype} and `x` of {x.dtype}")
    if not b.dtype.is_float:
        raise WujiTypeError(f"`{what}` of {b.dtype}; f32 and f64 are possible")
    if b.shape != x.shape:
        raise WujiRuntimeError(f"`{what}`: dimension mismatch: `b` is of shape {b.shape} and `x` of {x.shape}")


def _like(other: Any) -> Field:
    made: Field
    if isinstance(other, MatrixField):
        made = other.type.field(shape=other.shape, offset=other.offset)
    else:
        made = field(other.dtype, other.shape, offset=other.offset)
    return made


@contextmanager
def _borrowed(like: Any, count: int) -> Iterator[list[Field]]:
    """Fields like another one. They are kept for next time: kernels are compiled for them."""
    free: dict[Any, list[Field]] = runtime.current().__dict__.setdefault("workspaces", {})
    kind = like.type if isinstance(like, MatrixField) else like.dtype
    fields = free.setdefault((kind, like.shape, like.offset), [])
    lent = [fields.pop() if fields else _like(like) for _ in range(count)]
    try:
        yield lent
    finally:
        fields.extend(reversed(lent))


def MatrixFreeCG(A: Any, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True) -> bool:
    """Solves ``A x = b`` by conjugate gradients, for a symmetric operator with positive eigenvalues.

    ``x`` is where it starts, and has the solution in the end. Gives whether the rest of ``b`` became shorter than ``tol``.
    """
    _checked(A, b, x, "MatrixFreeCG")
    with _borrowed(b, 3) as (r, p, Ap):
        A.matvec(x, Ap)
        _combine(r, b, -1.0, Ap)
        p.copy_from(r)
        square = _dot(r, r)
        _say(quiet, f">>> Initial residual = {square**0.5:e}")
        steps = 0
        while square**0.5 >= tol and steps < maxiter:
            A.matvec(p, Ap)
            curve = _dot(p, Ap)
            if curve == 0.0 or curve != curve:
                break
            alpha = square / curve
            _combine(x, x, alpha, p)
            _combine(r, r, -alpha, Ap)
            before, square = square, _dot(r, r)
            steps += 1
            _say(quiet, f">>> Iter = {steps:4}, Residual = {square**0.5:e}")
            _combine(p, r, square / before, p)
        return _end("Conjugate Gradient", square**0.5 < tol, steps, quiet)


def MatrixFreeBICGSTAB(A: Any, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True) -> bool:
    """Solves ``A x = b`` by stabilized biconjugate gradients, for any operator that has an inverse.

    ``x`` is where it starts, and has the solution in the end. Gives whether the rest of ``b`` became shorter than ``tol``.
    """
    _checked(A, b, x, "MatrixFreeBICGSTAB")
    with _borrowed(b, 5) as (r, shadow, p, Ap, As):
        A.matvec(x, Ap)
        _combine(r, b, -1.0, Ap)
        shadow.copy_from(r)
        p.copy_from(r)
        rho = _dot(shadow, r)
        square = _dot(r, r)
        _say(quiet, f">>> Initial residual = {square**0.5:e}")
        steps = 0
        while square**0.5 >= tol and steps < maxiter:
            A.matvec(p, Ap)
            angle = _dot(shadow, Ap)
            if angle == 0.0 or angle != angle:
                break
            alpha = rho / angle
            _combine(x, x, alpha, p)
            _combine(r, r, -alpha, Ap)
            A.matvec(r, As)
            size = _dot(As, As)
            omega = _dot(As, r) / size if size > 0.0 else 0.0
            _combine(x, x, omega, r)
            _combine(r, r, -omega, As)
            square = _dot(r, r)
            steps += 1
            _say(quiet, f">>> Iter = {steps:4}, Residual = {square**0.5:e}")
            before, rho = rho, _dot(shadow, r)
            if square**0.5 < tol:
                break
            if rho == 0.0 or omega == 0.0:
                # The directions are used up: start again from here.
                shadow.copy_from(r)
                p.copy_from(r)
                rho = square
                continue
            _combine(p, p, -omega, Ap)
            _combine(p, r, rho / before * (alpha / omega), p)
        return _end("BICGSTAB", square**0.5 < tol, steps, quiet)


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        print(text)


def _end(method: str, converged: bool, steps: int, quiet: bool) -> bool:
    how = f"converged at #iterations {steps}" if converged else f"failed to converge in {steps} iterations"
    _say(quiet, f">>> {method} method {how}.")
    return bool(converged)


__all__ = ["LinearOperator", "MatrixFreeBICGSTAB", "MatrixFreeCG"]
