"""Complex arithmetic on 2-component vectors."""

from __future__ import annotations

from typing import Any

from ..lang import matrix_ops, ops
from ..lang.matrix import Vector


def _parts(z: Any) -> tuple[Any, Any]:
    return z[0], z[1]


def cmul(z1: Any, z2: Any) -> Any:
    """Return the product."""
    (a, b), (c, d) = _parts(z1), _parts(z2)
    return Vector([ops.sub(ops.mul(a, c), ops.mul(b, d)), ops.add(ops.mul(a, d), ops.mul(b, c))])


def cconj(z: Any) -> Any:
    """Return the complex conjugate."""
    a, b = _parts(z)
    return Vector([a, ops.neg(b)])


def cdiv(z1: Any, z2: Any) -> Any:
    """Return the quotient."""
    return ops.truediv(cmul(z1, cconj(z2)), matrix_ops.dot(z2, z2))


def cinv(z: Any) -> Any:
    """Return the reciprocal."""
    return ops.truediv(cconj(z), matrix_ops.dot(z, z))


def _polar(z: Any) -> tuple[Any, Any]:
    a, b = _parts(z)
    return matrix_ops.norm(z), ops.atan2(b, a)


def _from_polar(r: Any, angle: Any) -> Any:
    return ops.mul(Vector([ops.cos(angle), ops.sin(angle)]), r)


def csqrt(z: Any) -> Any:
    """Return the principal square root."""
    r, angle = _polar(z)
    return _from_polar(ops.sqrt(r), ops.mul(angle, 0.5))


def cpow(z: Any, n: Any) -> Any:
    """Raise to a real power."""
    r, angle = _polar(z)
    return _from_polar(ops.pow(r, n), ops.mul(angle, n))


def cexp(z: Any) -> Any:
    """Return the exponential."""
    a, b = _parts(z)
    return _from_polar(ops.exp(a), b)


def clog(z: Any) -> Any:
    """Return the principal logarithm."""
    r, angle = _polar(z)
    return Vector([ops.log(r), angle])
