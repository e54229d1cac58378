"""Math functions and types with GLSL names."""

from __future__ import annotations

import math as _math
import sys as _sys
from typing import Any

from ..exceptions import WujiTypeError
from ..lang import dtypes, emit, folding, matrix_ops, ops
from ..lang.compound import MatrixType, VectorType
from ..lang.dtypes import defaults
from ..lang.matrix import Matrix
from ..lang.ops import (
    acos,
    asin,
    atan2,
    ceil,
    cos,
    exp,
    floor,
    log,
    max,
    min,
    pow,
    round,
    sin,
    sqrt,
    tan,
    tanh,
)
from ..lang.values import Expr
from .complex import cconj, cdiv, cexp, cinv, clog, cmul, cpow, csqrt
from .transforms import rot_by_axis, rot_yaw_pitch_roll, rotation2d, rotation3d, scale, translate, vdir

pi = _math.pi
e = _math.e
inf = _math.inf
nan = _math.nan


_cache: dict[Any, MatrixType] = {}


def _type(kind: str, *shape: int) -> MatrixType:
    dtype = {"f": defaults.fp, "i": defaults.ip, "u": dtypes.u64 if defaults.ip.bits == 64 else dtypes.u32}[kind]
    key = (dtype, shape)
    if key not in _cache:
        _cache[key] = VectorType(shape[0], dtype) if len(shape) == 1 else MatrixType(shape[0], shape[1], 2, dtype)
    return _cache[key]


_TYPES = {
    **{f"vec{n}": ("f", n) for n in (2, 3, 4)},
    **{f"ivec{n}": ("i", n) for n in (2, 3, 4)},
    **{f"uvec{n}": ("u", n) for n in (2, 3, 4)},
    **{f"mat{n}": ("f", n, n) for n in (2, 3, 4)},
}


def __getattr__(name: str) -> Any:
    # The types depend on the default types of the world.
    if name in _TYPES:
        kind, *shape = _TYPES[name]
        return _type(str(kind), *(int(s) for s in shape))
    from ..compat.names import find

    return find("math", name, _sys._getframe(1))


def _vector(v: Any) -> Any:
    return Matrix(v) if isinstance(v, (list, tuple)) else v


def dot(x: Any, y: Any) -> Any:
    """Return the dot product."""
    return matrix_ops.dot(_vector(x), _vector(y))


def cross(x: Any, y: Any) -> Any:
    """Return the cross product."""
    return matrix_ops.cross(_vector(x), _vector(y))


def length(x: Any) -> Any:
    """Return the length of a vector."""
    return matrix_ops.norm(_vector(x))


def distance(x: Any, y: Any) -> Any:
    """Return the distance between two points."""
    difference = ops.sub(x, y)
    return matrix_ops.norm(difference) if getattr(difference, "shape", ()) else ops.abs(difference)


def normalize(v: Any) -> Any:
    """Return the vector scaled to length 1."""
    return matrix_ops.normalized(_vector(v))


def determinant(m: Any) -> Any:
    return matrix_ops.determinant(m)


def inverse(mat: Any) -> Any:
    return matrix_ops.inverse(mat)


def eye(n: int) -> Any:
    """Return the ``n`` by ``n`` identity matrix."""
    return Matrix._of([float(r == c) for r in range(n) for c in range(n)], (n, n), defaults.fp)


def clamp(x: Any, xmin: Any, xmax: Any) -> Any:
    """Clamp ``x`` to ``[xmin, xmax]``."""
    return min(xmax, max(xmin, x))


def mix(x: Any, y: Any, a: Any) -> Any:
    """Interpolate linearly: ``x`` for ``a = 0``, ``y`` for ``a = 1``."""
    return ops.add(ops.mul(x, ops.sub(1.0, a)), ops.mul(y, a))


def mod(x: Any, y: Any) -> Any:
    """Return ``x - y * floor(x / y)``."""
    return ops.sub(x, ops.mul(y, floor(ops.truediv(x, y))))


def fract(x: Any) -> Any:
    """Return the fractional part, ``x - floor(x)``."""
    return ops.sub(x, floor(x))


def step(edge: Any, x: Any) -> Any:
    """Return 0 if ``x < edge``, else 1."""
    return ops.cast(ops.cmp_ge(x, edge), defaults.fp)


def sign(x: Any) -> Any:
    """Return the sign: -1, 0 or 1."""
    positive, negative = ops.cmp_gt(x, 0), ops.cmp_lt(x, 0)
    return ops.select(positive, 1.0, ops.select(negative, -1.0, 0.0))


def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """Return the Hermite interpolation from 0 at ``edge0`` to 1 at ``edge1``."""
    t = clamp(ops.truediv(ops.sub(x, edge0), ops.sub(edge1, edge0)), 0.0, 1.0)
    return ops.mul(ops.mul(t, t), ops.sub(3.0, ops.mul(2.0, t)))


def radians(x: Any) -> Any:
    """Convert degrees to radians."""
    return ops.mul(x, pi / 180.0)


def degrees(x: Any) -> Any:
    """Convert radians to degrees."""
    return ops.mul(x, 180.0 / pi)


def log2(x: Any) -> Any:
    """Return the base-2 logarithm."""
    if isinstance(x, Expr):
        return emit.float_unary("log2", x)
    return ops._host_map(folding.log2, x)


def reflect(x: Any, n: Any) -> Any:
    """Reflect a direction off a surface with unit normal ``n``."""
    return ops.sub(x, ops.mul(ops.mul(2.0, dot(x, n)), n))


def refract(x: Any, n: Any, eta: Any) -> Any:
    """Refract a direction at a surface with unit normal ``n``; zero on total internal reflection."""
    dxn = dot(x, n)
    k = ops.sub(1.0, ops.mul(ops.mul(eta, eta), ops.sub(1.0, ops.mul(dxn, dxn))))
    bent = ops.sub(ops.mul(eta, x), ops.mul(ops.add(ops.mul(eta, dxn), sqrt(max(k, 0.0))), n))
    return ops.mul(bent, ops.select(ops.cmp_ge(k, 0.0), 1.0, 0.0))


def isnan(x: Any) -> Any:
    """Return whether ``x`` is NaN."""
    return ops.cmp_ne(x, x)


def isinf(x: Any) -> Any:
    """Return whether ``x`` is infinite."""
    return ops.cmp_eq(ops.abs(x), inf)


def _integers(x: Any, what: str) -> None:
    if not emit.element(x).is_int:
        raise WujiTypeError(f"`{what}` needs an integer, not {emit.element(x)}")


def popcnt(x: Any) -> Any:
    """Return the number of set bits."""
    if isinstance(x, Expr):
        _integers(x, "popcnt")
        return emit.convert(emit.unary("popcount", x), dtypes.i32)
    return ops._host_map(folding.popcnt, x)


def clz(x: Any) -> Any:
    """Return the number of leading zero bits."""
    if isinstance(x, Expr):
        _integers(x, "clz")
        return emit.convert(emit.unary("clz", x), dtypes.i32)
    return ops._host_map(folding.clz, x)


__all__ = [
    "acos", "asin", "atan2", "cconj", "cdiv", "ceil", "cexp", "cinv", "clamp", "clog", "clz", "cmul", "cos", "cpow", "cross", "csqrt",
    "degrees", "determinant", "distance", "dot", "e", "exp", "eye", "floor", "fract", "inf", "inverse", "isinf", "isnan", "length",
    "log", "log2", "max", "min", "mix", "mod", "nan", "normalize", "pi", "popcnt", "pow", "radians", "reflect", "refract",
    "rot_by_axis", "rot_yaw_pitch_roll", "rotation2d", "rotation3d", "round", "scale", "sign", "sin", "smoothstep", "sqrt", "step",
    "tan", "tanh", "translate", "vdir",
    "vec2", "vec3", "vec4", "ivec2", "ivec3", "ivec4", "uvec2", "uvec3", "uvec4", "mat2", "mat3", "mat4",
]  # fmt: skip
