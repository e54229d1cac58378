"""Functions of NumPy and `math` that a kernel cannot call with run-time values, and what to call instead."""

from __future__ import annotations

from typing import Any

from ..values import is_device

# Counterparts with another name, or in another place.
_OTHER_NAMES = {
    "absolute": "ti.abs",
    "arccos": "ti.acos",
    "arcsin": "ti.asin",
    "arctan2": "ti.atan2",
    "array": "ti.Vector` or `ti.Matrix",
    "asarray": "ti.Vector` or `ti.Matrix",
    "clip": "ti.math.clamp",
    "det": "ti.math.determinant",
    "fabs": "ti.abs",
    "float16": "ti.f16",
    "float32": "ti.f32",
    "float64": "ti.f64",
    "fmod": "ti.math.mod",
    "int16": "ti.i16",
    "int32": "ti.i32",
    "int64": "ti.i64",
    "int8": "ti.i8",
    "inv": "ti.math.inverse",
    "maximum": "ti.max",
    "minimum": "ti.min",
    "norm": "ti.math.length",
    "power": "ti.pow",
    "rint": "ti.round",
    "uint16": "ti.u16",
    "uint32": "ti.u32",
    "uint64": "ti.u64",
    "uint8": "ti.u8",
    "where": "ti.select",
}


def foreign(f: Any, args: list[Any]) -> str | None:
    """Return the message for a call of NumPy or `math` with run-time values; None for other calls."""
    package = (getattr(f, "__module__", None) or getattr(type(f), "__module__", None) or "").partition(".")[0]
    if package not in ("numpy", "math") or not any(map(_has_device, args)):
        return None
    name = getattr(f, "__name__", str(f))
    text = f"`{package}.{name}` cannot be called with a run-time value: it runs in Python"
    counterpart = _counterpart(name)
    return text if counterpart is None else f"{text}\n  = help: Did you mean to use `{counterpart}` instead of `{package}.{name}`?"


def _counterpart(name: str) -> str | None:
    import wuji

    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    if callable(getattr(wuji, name, None)):
        return f"ti.{name}"
    return f"ti.math.{name}" if callable(getattr(wuji.math, name, None)) else None


def _has_device(value: Any) -> bool:
    return is_device(value) or isinstance(value, (list, tuple)) and any(map(_has_device, value))
