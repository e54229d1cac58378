"""Results that later launches use, in fields and arrays that have no derivatives: these are lost."""

from __future__ import annotations

import warnings
from typing import Any

from ..lang.arguments import gradient_of, tangent_of
from ..lang.kernel import Kernel, Specialization
from ..lang.ndarray import Ndarray
from .stored import StoredArray, StoredField

_FLOATS = ("f16", "f32", "f64", "float16", "float32", "float64", "torch.float16", "torch.float32", "torch.float64")


class Carried:
    """The fields and arrays without derivatives that launches have written results to, which depend on what has derivatives.

    A field without a gradient is a constant, which is right for pictures and measurements, and wrong for intermediate results.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind  # "grad" or "dual"
        self._written: dict[Any, str] = {}  # the kernel
        self._warned: set[Any] = set()
        self._changes = 0  # of `_written`
        self._seen: dict[Specialization, int] = {}  # launches without arrays, which tell nothing new until something changes

    def launch(self, kernel: Kernel, code: Specialization, args: tuple[Any, ...]) -> None:
        """Take note of a launch; warn if derivatives are lost."""
        if self._seen.get(code) == self._changes and not code.arrays:
            return
        reads, writes = self._data(code, code.reads, args), self._data(code, code.results, args)
        lost = [data for data in reads if data.own_key in self._written]
        if lost and any(self._is_differentiable(data) for data in writes):
            self._warn(kernel, lost[0])
        if lost or any(self._is_differentiable(data) for data in reads):
            for data in writes:
                if _is_float(data) and not self._is_differentiable(data):
                    self._changes += data.own_key not in self._written
                    self._written.setdefault(data.own_key, kernel.function.__name__)
        self._seen[code] = self._changes

    def forget(self, data: StoredField | StoredArray) -> None:
        """The host has written to a field or array."""
        if self._written.pop(data.own_key, None) is not None:
            self._changes += 1

    def _data(self, code: Specialization, bases: frozenset[tuple[str, int]], args: tuple[Any, ...]) -> list[StoredField | StoredArray]:
        found: list[StoredField | StoredArray] = []
        for place, number in bases:
            if place == "f" and number in code.leaves:
                found.append(StoredField(code.leaves[number]))
            elif place == "a" and number in code.arrays:
                name, get = code.arrays[number]
                found.append(StoredArray(get(args), name))
        return found

    def _is_differentiable(self, data: StoredField | StoredArray) -> bool:
        if isinstance(data, StoredArray):
            return (gradient_of if self.kind == "grad" else tangent_of)(data.array) is not None
        companion = getattr(data.leaf, self.kind)
        return companion is not None and companion.native is not None

    def _warn(self, kernel: Kernel, data: StoredField | StoredArray) -> None:
        if data.own_key in self._warned:
            return
        self._warned.add(data.own_key)
        missing = "gradient" if self.kind == "grad" else "tangent"
        where = f"create it with `needs_{self.kind}=True`"
        warnings.warn(
            f"kernel `{kernel.function.__name__}` uses {data.name}, which kernel `{self._written[data.own_key]}` has computed: it has no {missing}, so it counts as a constant\n"
            f"  = help: {where}, or state that it is a constant: `ti.stop_grad(x)` in the kernel, or `@ti.ad.no_grad`",
            RuntimeWarning,
            stacklevel=6,
        )


def _is_float(data: StoredField | StoredArray) -> bool:
    if isinstance(data, StoredField):
        # Gradients themselves are no results.
        return not data.leaf.kind and data.leaf.type.startswith("f")
    array = data.array
    return str(array.dtype.ir if isinstance(array, Ndarray) else getattr(array, "dtype", "")) in _FLOATS
