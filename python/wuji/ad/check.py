"""Comparison of gradients with finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import WujiAssertionError, WujiRuntimeError
from ..lang import recording, runtime
from ..lang.dtypes import defaults
from ..lang.field import Field
from ..lang.kernel import Specialization
from ..lang.fields_builder import SNodeTree
from ..lang.snode import Leaf
from .cells import StoredCells
from .stored import StoredArray, copy_of, restore

if TYPE_CHECKING:
    from .tape import Step

# Of a direction, relative to the values.
_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_TOLERANCE = {"f64": 1e-4, "f32": 2e-2, "f16": 1e-1}
# Derivatives that rounding hides, relative to the loss.
_HIDDEN = {"f64": 1e-5, "f32": 3e-3, "f16": 1e-1}
# Fields with more elements are only checked along random directions.
_SINGLE = 64
_SHOWN = 5


class GradChecker:
    """Compares gradients with central differences, along random directions and for single elements.

    It runs the recorded program again with changed values, and restores all fields.
    """

    def __init__(self, loss: Any, to_check: Any) -> None:
        if not isinstance(to_check, (list, tuple)):
            raise WujiAssertionError("grad_check should be a list of fields that need to check gradients.")
        if not isinstance(loss, Field):
            raise WujiRuntimeError("`grad_check` needs a loss that is a field")
        for field in to_check:
            if not isinstance(field, Field) or not field.needs_grad:
                raise WujiRuntimeError(f"{field!r} in `grad_check` has no gradient\n  = help: create the field with `needs_grad=True`")
        self.loss = loss
        self.to_check: list[Any] = list(to_check)
        self._value: Any = 0.0
        self._arrays: dict[Any, tuple[StoredArray, Any]] = {}
        self._before: list[tuple[Leaf | StoredCells | StoredArray, Any]] = []

    def start(self) -> None:
        """Keep the values that the recorded program starts with."""
        self._before = _snapshot()

    def see(self, code: Specialization, args: tuple[Any, ...]) -> None:
        """Keep the values of the arrays of a launch that is about to run, unless an earlier one had them."""
        for name, get in code.arrays.values():
            data = StoredArray(get(args), name)
            if data.key not in self._arrays and data.is_writable:
                self._arrays[data.key] = (data, data.copy())

    def check(self, steps: list[Step]) -> None:
        """Compare, print the worst entries, and raise if one of them is wrong."""
        import numpy

        after = _snapshot() + [(data, data.copy()) for data, _ in self._arrays.values()]
        self._before.extend(self._arrays.values())
        self._value = self.loss.to_numpy()
        generator = numpy.random.default_rng(0)
        lines: list[str] = []
        passes = True
        try:
            for number, field in enumerate(self.to_check):
                failed: list[str] = []
                name = field.name or f"variable {number}"
                gradient = field.grad.to_numpy()
                for part, values in gradient.items() if isinstance(gradient, dict) else [("", gradient)]:
                    of = field if not part else field.get_member_field(part)
                    label = f"{name}.{part}" if part else name
                    failed.extend(self._check_one(of, label, values.astype(numpy.float64), steps, generator))
                if not failed and defaults.lenient:
                    lines.append(f"variable {number} passes grad check")  # as Taichi
                lines.extend(failed)
                passes = passes and not failed
        finally:
            _restore(after)
        for line in lines:
            print(line)
        if not passes:
            raise WujiAssertionError("Grad check failed: Not all variables pass grad check")

    def _check_one(self, field: Any, name: str, gradient: Any, steps: list[Step], generator: Any) -> list[str]:
        import numpy

        tolerance = _TOLERANCE[field.dtype.ir]
        smallest = max(1e-6, _HIDDEN[field.dtype.ir] * abs(float(numpy.sum(self._value))))
        directions = [(f"{name}, random direction", generator.standard_normal(gradient.shape)) for _ in range(2)]
        if gradient.size <= _SINGLE:
            for flat in range(gradient.size):
                at = numpy.unravel_index(flat, gradient.shape)
                single = numpy.zeros(gradient.shape)
                single[at] = 1.0
                directions.append((f"{name}[{', '.join(str(int(k)) for k in at)}]", single))
        found = []
        for label, direction in directions:
            expected = float((gradient * direction).sum())
            numeric = self._difference(field, direction, steps, expected)
            error = abs(numeric - expected) / max(abs(expected), abs(numeric), smallest)
            if not error <= tolerance:
                found.append((error, f"{label}: gradient {expected:.8g}, finite difference {numeric:.8g}, relative error {error:.2g} (expected at most {tolerance:g})"))
        found.sort(key=lambda entry: -entry[0])
        return [line for _, line in found[:_SHOWN]]

    def _difference(self, field: Any, direction: Any, steps: list[Step], expected: float) -> float:
        """Return the central difference that is closest to what is expected: which step is best depends on the program."""
        import numpy

        _restore(self._before)
        base = field.to_numpy()
        scale = max(1.0, float(numpy.abs(base).max(initial=0.0)))
        best = float("nan")
        for step in _STEPS if field.dtype.ir == "f64" else _STEPS[:2]:
            sides = []
            for sign in (1.0, -1.0):
                _restore(self._before)
                _change(field, base, (base + sign * step * scale * direction).astype(base.dtype))
                with recording.paused():
                    for recorded in steps:
                        recorded.redo()
                sides.append(float(numpy.sum(self.loss.to_numpy())))
            now = (sides[0] - sides[1]) / (2 * step * scale)
            if not abs(best - expected) <= abs(now - expected):
                best = now
            if abs(now - expected) <= 1e-7 * max(1.0, abs(expected)):
                break
        return best


def _change(field: Any, before: Any, after: Any) -> None:
    """Write all elements; of a sparse field, only those that change, so that no other cell becomes active."""
    import numpy

    if not field.node.is_sparse:
        field.from_numpy(after)
        return
    changed = (before != after).reshape((*field.shape, -1)).any(axis=-1)
    for at in numpy.argwhere(changed):
        index = tuple(int(k) + o for k, o in zip(at, field.offset, strict=True))
        if field.parent()._cells().is_active(tuple(int(k) for k in at)):
            field[index] = after[tuple(at)]


def _snapshot() -> list[tuple[Leaf | StoredCells | StoredArray, Any]]:
    """Copy all fields of the current world, but not their gradients."""
    world = runtime.current()
    world.materialize()
    found: list[tuple[Leaf | StoredCells | StoredArray, Any]] = []
    for root in list(world.roots):
        tree = root._owner
        if isinstance(tree, SNodeTree) and not tree.destroyed:
            is_sparse = bool(root._structure.sparse)
            if is_sparse:
                cells = StoredCells(root)
                found.append((cells, cells.copy()))
            found.extend((leaf, copy_of(leaf, is_sparse)) for leaf in root._structure.companions(""))
    return found


def _restore(values: list[tuple[Leaf | StoredCells | StoredArray, Any]]) -> None:
    for data, value in values:
        if isinstance(data, (StoredCells, StoredArray)):
            data.restore(value)
        else:
            restore(data, value)
