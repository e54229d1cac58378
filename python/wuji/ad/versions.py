"""Values that gradients need and later launches overwrite: a tape keeps copies of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..exceptions import WujiAssertionError, WujiRuntimeError
from ..lang.compound import MatrixType, type_by_ir
from ..lang.naming import label
from ..lang.snode import Leaf

# An index for each axis; None is any index.
Slice = tuple[int | None, ...]
Key = tuple[int, int]


class Use:
    """How a launch, or its gradient, uses a field."""

    __slots__ = ("at", "kind", "leaf", "slice")

    def __init__(self, leaf: Leaf, kind: str, where: Slice, at: str) -> None:
        self.leaf = leaf
        self.kind = kind  # "old", "new", "reads" or "writes"
        self.slice = where
        self.at = at


class Region:
    """Elements of a field, or more: values along the first axis on which the index of an access is known."""

    __slots__ = ("axes", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.axes: dict[int, set[int]] = {}

    def add(self, where: Slice) -> None:
        if self.whole:
            return
        for axis, index in enumerate(where):
            if index is not None:
                self.axes.setdefault(axis, set()).add(index)
                return
        self.whole = True
        self.axes.clear()

    def overlaps(self, where: Slice) -> bool:
        """Return whether an element may be in both."""
        if self.whole:
            return True
        for axis, values in self.axes.items():
            index = where[axis] if axis < len(where) else None
            if index is None or index in values:
                return True
        return False


class _Field:
    """A field that launches on a tape use."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.needed = Region()  # what gradients need of the current values
        self.needed_at = ""
        self.copies: list[tuple[int, Any]] = []  # number of the step that overwrites the values, and the values
        self.last: Any = None
        self.now: int | None = None  # the copy that the field holds while gradients run; None is the last values


class Versions:
    """Which values of each field the gradients of recorded launches need."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict  # refuse instead of copying
        self._fields: dict[Key, _Field] = {}
        self._uses: dict[int, list[Use]] = {}  # by number of the step

    def _state(self, leaf: Leaf) -> _Field:
        found = self._fields.get(leaf.key)
        if found is None:
            found = self._fields[leaf.key] = _Field(leaf)
        return found

    def launch(self, step: int, name: str, uses: list[Use]) -> None:
        """Get ready for a launch that is about to run."""
        _check_versions(name, uses)
        for use in uses:
            if use.kind == "old":
                self._need(use)
        for use in uses:
            if use.kind == "writes":
                self._overwrite(step, self._state(use.leaf), use.slice, f"(kernel={name}) ", use.at)
        for use in uses:
            if use.kind == "new":
                self._need(use)
        self._uses[step] = uses

    def write(self, step: int, key: Key) -> None:
        """Get ready for a write other than by a recorded launch."""
        if key in self._fields:
            self._overwrite(step, self._fields[key], (None,) * 8, "", "")

    def _need(self, use: Use) -> None:
        state = self._state(use.leaf)
        state.needed.add(use.slice)
        state.needed_at = use.at

    def _overwrite(self, step: int, state: _Field, where: Slice, who: str, at: str) -> None:
        if not state.needed.overlaps(where):
            return
        if self.strict:
            raise WujiAssertionError(
                f"{who}Breaks the global data access rule. Field {label(state.leaf.name)} is overwritten unexpectedly"
                + (f" at {at}" if at else "")
                + (f"\n  = note: a gradient needs the value that is read at {state.needed_at}" if state.needed_at else "")
                + "\n  = help: store to another element, such as `x[t + 1, i]`; without `validation`, the tape keeps a copy"
            )
        state.copies.append((step, copy_of(state.leaf)))
        state.needed = Region()

    # While gradients run.
    def begin(self) -> None:
        """Keep the last values of fields that have copies."""
        for state in self._fields.values():
            if state.copies:
                state.last, state.now = copy_of(state.leaf), None

    def bring(self, step: int) -> None:
        """Give fields the values that the gradient of a launch needs."""
        # Where old values are needed, the others are the same before and after the launch.
        for kind, time in (("new", step + 1), ("old", step)):
            for use in self._uses.get(step, ()):
                if use.kind == kind:
                    self._bring_one(self._fields[use.leaf.key], time)

    def _bring_one(self, state: _Field, time: int) -> None:
        if not state.copies:
            return
        wanted = next((n for n, (before, _) in enumerate(state.copies) if before >= time), None)
        if wanted != state.now:
            restore(state.leaf, state.last if wanted is None else state.copies[wanted][1])
            state.now = wanted

    def disturb(self) -> None:
        """Forget which values fields hold: code of the user has run."""
        for state in self._fields.values():
            state.now = -1

    def end(self) -> None:
        """Restore the last values."""
        for state in self._fields.values():
            if state.copies and state.now is not None:
                restore(state.leaf, state.last)
            state.last = None


def _check_versions(name: str, uses: list[Use]) -> None:
    """Raise if a gradient needs an element as it was before and as it is after the launch."""
    old = {use.leaf.key for use in uses if use.kind == "old"}
    for use in uses:
        if use.kind != "new" or use.leaf.key not in old:
            continue
        written = Region()
        for other in uses:
            if other.kind == "writes" and other.leaf.key == use.leaf.key:
                written.add(other.slice)
        before = [u for u in uses if u.kind == "old" and u.leaf.key == use.leaf.key and written.overlaps(u.slice)]
        if before and written.overlaps(use.slice):
            raise WujiRuntimeError(
                f"the gradient of kernel `{name}` needs values of field {label(use.leaf.name)} from before and from after it\n"
                f"  = note: it reads the value from before at {before[0].at}, and the one from after at {use.at}\n"
                "  = help: write to another field, or split the kernel in two"
            )


def copy_of(leaf: Leaf, is_sparse: bool = False) -> Any:
    """Copy all elements of a field; of a sparse one, those that are active."""
    import numpy

    native = leaf.ready() if leaf.native is None else leaf.native
    if is_sparse or (leaf.node is not None and leaf.node.is_sparse):
        return [(at, native.get(at)) for at in native.active()]
    ty = type_by_ir(leaf.type)
    dtype = ty.dtype if isinstance(ty, MatrixType) else ty
    out = numpy.empty(native.shape + (ty.shape if isinstance(ty, MatrixType) else ()), dtype=dtype.numpy_name)
    native.read_into(out)
    return out


def restore(leaf: Leaf, values: Any) -> None:
    """Write a copy back."""
    native = leaf.ready() if leaf.native is None else leaf.native
    if isinstance(values, list):
        for at, value in values:
            native.set(at, value)
    else:
        native.write_from(values)


def uses_of(code: Any, given: Iterable[Any]) -> list[Use]:
    """Return how a launch with these arguments of the program uses fields."""
    values = list(given)

    def index(part: tuple[int | None, int] | None) -> int | None:
        if part is None:
            return None
        parameter, offset = part
        if parameter is None:
            return offset
        value = values[code.positions[parameter]]
        return int(value) + offset if hasattr(value, "__index__") else None

    return [Use(code.leaves[field], kind, tuple(index(part) for part in where), at) for field, kind, where, at in code.uses if field in code.leaves]
