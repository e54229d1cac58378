"""Matrix-free linear solvers: the operator is a kernel."""

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
    """A linear operator defined by a kernel ``matvec(x, Ax)`` that writes the product of ``x`` to ``Ax``."""

    def __init__(self, matvec_kernel: Any) -> None:
        self._matvec = matvec_kernel

    def matvec(self, x: Any, Ax: Any) -> None:
        """Apply the operator: write ``A x`` to ``Ax``."""
        if x.shape != Ax.shape:
            raise WujiRuntimeError(f"shape mismatch: `LinearOperator.matvec` of {x.shape} and {Ax.shape}")
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
    """Compute ``out = a + factor * b`` in the precision of the fields."""
    for I in grouped(out):  # noqa: E741
        out[I] = a[I] + ops.cast(factor, static(out.dtype)) * b[I]


def _check(A: Any, b: Any, x: Any, what: str) -> None:
    if not isinstance(A, LinearOperator):
        raise WujiTypeError(f"`{what}` needs a `LinearOperator`, not {type(A).__name__}")
    for name, value in (("b", b), ("x", x)):
        if not isinstance(value, (ScalarField, MatrixField)):
            raise WujiTypeError(f"`{what}` needs fields; `{name}` is {type(value).__name__}")
    if b.dtype is not x.dtype or type(b) is not type(x) or isinstance(b, MatrixField) and b.type != x.type:
        raise WujiTypeError(f"`{what}`: dtype mismatch: `b` is of {b.dtype} and `x` of {x.dtype}")
    if not b.dtype.is_float:
        raise WujiTypeError(f"`{what}` needs f32 or f64, not {b.dtype}")
    if b.shape != x.shape:
        raise WujiRuntimeError(f"`{what}`: dimension mismatch: `b` is of shape {b.shape} and `x` of {x.shape}")


def _like(other: Any) -> Field:
    created: Field = field(other.type if isinstance(other, MatrixField) else other.dtype, other.shape, offset=other.offset)
    return created


@contextmanager
def _temporaries(like: Any, count: int) -> Iterator[list[Field]]:
    """Lend temporary fields with the type and shape of another one. They are pooled, because kernels are specialized on them."""
    pools: dict[Any, list[Field]] = runtime.current().__dict__.setdefault("workspaces", {})
    kind = like.type if isinstance(like, MatrixField) else like.dtype
    fields = pools.setdefault((kind, like.shape, like.offset), [])
    temporaries = [fields.pop() if fields else _like(like) for _ in range(count)]
    try:
        yield temporaries
    finally:
        fields.extend(reversed(temporaries))


def MatrixFreeCG(A: Any, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True) -> bool:
    """Solve ``A x = b`` by conjugate gradients, for a symmetric positive definite operator.

    Args:
        A: The operator.
        b: The right-hand side.
        x: The initial guess; receives the solution.
        tol: Stop when the norm of the residual is below this.
        maxiter: Maximum number of iterations.
        quiet: Do not print the residual of each iteration.

    Returns:
        Whether the residual fell below ``tol``.
    """
    _check(A, b, x, "MatrixFreeCG")
    with _temporaries(b, 3) as (r, p, Ap):
        A.matvec(x, Ap)
        _combine(r, b, -1.0, Ap)
        p.copy_from(r)
        rr = _dot(r, r)
        _report(quiet, f">>> Initial residual = {rr**0.5:e}")
        steps = 0
        while rr**0.5 >= tol and steps < maxiter:
            A.matvec(p, Ap)
            pAp = _dot(p, Ap)
            if pAp == 0.0 or pAp != pAp:
                break
            alpha = rr / pAp
            _combine(x, x, alpha, p)
            _combine(r, r, -alpha, Ap)
            before, rr = rr, _dot(r, r)
            steps += 1
            _report(quiet, f">>> Iter = {steps:4}, Residual = {rr**0.5:e}")
            _combine(p, r, rr / before, p)
        return _finish("Conjugate Gradient", rr**0.5 < tol, steps, quiet)


def MatrixFreeBICGSTAB(A: Any, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True) -> bool:
    """Solve ``A x = b`` by the stabilized biconjugate gradient method, for any invertible operator.

    Args:
        A: The operator.
        b: The right-hand side.
        x: The initial guess; receives the solution.
        tol: Stop when the norm of the residual is below this.
        maxiter: Maximum number of iterations.
        quiet: Do not print the residual of each iteration.

    Returns:
        Whether the residual fell below ``tol``.
    """
    _check(A, b, x, "MatrixFreeBICGSTAB")
    with _temporaries(b, 5) as (r, shadow, p, Ap, As):
        A.matvec(x, Ap)
        _combine(r, b, -1.0, Ap)
        shadow.copy_from(r)
        p.copy_from(r)
        rho = _dot(shadow, r)
        rr = _dot(r, r)
        _report(quiet, f">>> Initial residual = {rr**0.5:e}")
        steps = 0
        while rr**0.5 >= tol and steps < maxiter:
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
            rr = _dot(r, r)
            steps += 1
            _report(quiet, f">>> Iter = {steps:4}, Residual = {rr**0.5:e}")
            before, rho = rho, _dot(shadow, r)
            if rr**0.5 < tol:
                break
            if rho == 0.0 or omega == 0.0:
                # Breakdown: restart from the current solution.
                shadow.copy_from(r)
                p.copy_from(r)
                rho = rr
                continue
            _combine(p, p, -omega, Ap)
            _combine(p, r, rho / before * (alpha / omega), p)
        return _finish("BICGSTAB", rr**0.5 < tol, steps, quiet)


def _report(quiet: bool, text: str) -> None:
    if not quiet:
        print(text)


def _finish(method: str, converged: bool, steps: int, quiet: bool) -> bool:
    how = f"converged at #iterations {steps}" if converged else f"failed to converge in {steps} iterations"
    _report(quiet, f">>> {method} method {how}.")
    return bool(converged)


__all__ = ["LinearOperator", "MatrixFreeBICGSTAB", "MatrixFreeCG"]
